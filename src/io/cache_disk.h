/* SPDX-License-Identifier: Apache-2.0
 * A cache of objects in a folder. The processes of a host share it, without a daemon:
 *
 *   DIR/CACHEDIR.TAG     marks the folder as a cache, for backup programs by its first line and for Stoker by its second; a folder without it is not touched
 *   DIR/state            a page that all processes share: total size of the entries, and when the last two runs began
 *   DIR/3f/9a01...       an entry: a header, the bytes, the object's name
 *   DIR/tmp/PID-N-SIZE   an entry that is being written; it gets its name when it is complete
 *
 * An entry is found by a hash of the object's store, URI and range. It holds the URI, a hash of the object's ETag, the object's size, and a checksum that each
 * read verifies. So a crash, a full disk or a flipped bit costs a download and nothing else, and nothing is ever synced to the disk.
 *
 * A run lasts as long as any process has the cache open; each holds a shared lock (flock) on `state`. When room is needed, entries that neither this run
 * nor the one before has used are removed. Other entries stay unless the limit is lowered, and an object without room is not stored. So if a data set is
 * larger than the cache and is read in another order each epoch, the cache has as much of it as fits; if the least recently used entries were removed, it
 * would hardly ever have the next object.
 *
 * Other users may be able to write to the folder. So all its files are opened relative to one descriptor of the folder, and no link is followed. A file that is
 * not regular counts as damaged. `state` is read and written under a lock instead of being mapped, because a mapped file that is truncated by another
 * process ends this one with a signal.
 *
 * Before a process fetches an object, it locks the byte of `state` that belongs to the object's key (an "open file description lock", which ends with the
 * process, also if children that it forked live on). Other processes wait for the entry instead of fetching the object too,
 * as long as the fetch continues (stk__io_unclaim) and at most for some seconds or half a minute (cache.c). */
#ifndef STK_IO_CACHE_DISK_H
#define STK_IO_CACHE_DISK_H

#include "stoker/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* maximum sizes, with the NUL, of the folder's path, of a cached URI, and of an entry's name, "3f/9a01..." */
enum { STK_CACHE_DIR = 3900, STK_CACHE_PATH = 4096, STK_CACHE_NAME = 34 };

struct stk_cache_key {
	uint64_t a, b;
};

/* The header of an entry's file. Numbers are little-endian. */
struct stk_cache_head {
	char magic[8];
	uint64_t a, b;          /* the key */
	int64_t offset, length; /* requested range in bytes; length -1: to the end of the object */
	int64_t object_size;    /* size of the whole object in bytes; 0: unknown */
	uint64_t tag;           /* hash of the object's ETag; 0: unknown */
	uint64_t bytes, uri;    /* sizes of the payload and of the URI, which follow this header */
	uint64_t bytes_hash;    /* hash of the payload */
	uint64_t head_hash;     /* hash of the members above and of the URI */
};

struct stk_cache_disk {
	char dir[STK_CACHE_DIR];
	int folder, tmp; /* descriptors of DIR and DIR/tmp */
	int fd;          /* descriptor of `state`; -1: `state` cannot be written */
	int64_t begin_sec,
		last_begin_sec; /* times at which this run and the previous one began, in seconds since 1970; a run lasts while any process
				 * has the cache open */
	uint64_t limit;         /* maximum total size of entries, finished or reserved, in bytes */
	_Atomic bool read_only, no_openat2; /* read_only: nothing more is written; no_openat2: the system lacks openat2 */
	_Atomic bool scanned;               /* true if this process must not search for old entries: it once found too few */
	_Atomic uint64_t number;            /* number of the next unfinished entry, for its name in tmp */
	pthread_mutex_t lock;               /* guards the contents of `state` among threads, and all members below */
	bool no_locks; /* true if `state` is changed without a file lock: the file system has none, or a program never releases it */
	struct stk_cache_disk *next_open; /* the next cache that this process has open, see open_disks in cache_disk.c */
	int recounts;                     /* number of times that this process has counted the entries again because `state` was damaged */
};

/* Opens a cache and creates its folder if needed. dir "memory": a folder in /dev/shm that belongs to this user. limit: maximum size in bytes; 0: four fifths
 * of the disk's free space and the bytes of the cache together; in memory at most half of the available memory and of these bytes. STK_INVALID: the folder
 * cannot be created, contains other files, or belongs to another user
 * while every user can write to it. *notice: set to a message to log once, or ""; a folder that cannot be written is still read. */
STK_MUST_USE enum stk_status stk__cache_disk_open(
	struct stk_cache_disk *d, const char *dir, uint64_t limit, char notice[512], struct stk_error *err);
/* Opens an existing cache for inspection, without counting as a run or as a process that uses it. STK_INVALID: the folder is not a cache. */
STK_MUST_USE enum stk_status stk__cache_disk_look(struct stk_cache_disk *d, const char *dir, struct stk_error *err);
void stk__cache_disk_close(struct stk_cache_disk *d);

/* Returns the key of an object's range. store_hash: hash of the object's store, which the URI does not name. */
struct stk_cache_key stk__cache_key(const char *uri, int64_t offset, int64_t length, uint64_t store_hash);
/* Writes the name, relative to the folder, of the file for this key. */
void stk__cache_name(struct stk_cache_key key, char name[STK_CACHE_NAME]);
/* Opens the file of an entry and returns its descriptor, or -1 with errno. The file may also be a directory, a FIFO or a device, so the caller must call fstat.
 * cached: if opening could block, returns -1 with EAGAIN; has no effect on kernels without openat2. */
int stk__cache_open(struct stk_cache_disk *d, const char *name, bool cached);
bool stk__cache_exists(const struct stk_cache_disk *d, const char *name);

/* Returns whether the header and the URI agree with each other, with this key, and with the size of the entry's file. */
bool stk__cache_head_good(const struct stk_cache_head *h, const char *uri, struct stk_cache_key key, uint64_t file_size);
/* Sets the header's magic, the URI's size and the header's hash. Set all other members before. */
void stk__cache_head_seal(struct stk_cache_head *h, const char *uri);

/* Returns the total size of entries, finished or reserved, in bytes; 0 if `state` cannot be read. */
uint64_t stk__cache_used(const struct stk_cache_disk *d);
void stk__cache_set_used(struct stk_cache_disk *d, uint64_t used);
/* Reserves bytes within the limit, and removes old entries if needed. Returns false if there is no room, or if the folder is read-only. */
bool stk__cache_reserve(struct stk_cache_disk *d, uint64_t bytes);
/* Completes the header h, and writes an entry whose room was reserved. If the write fails, releases that room; if the entry replaces an older one, releases
 * the older one's room. STK_IO: the disk reports an error. */
STK_MUST_USE enum stk_status stk__cache_write(
	struct stk_cache_disk *d, struct stk_cache_head *h, const void *bytes, const char *uri, struct stk_error *err);
/* Removes an entry and releases its room. seen: if not NULL, removes the entry only if it is still this file. Returns whether this call removed it. */
bool stk__cache_remove(struct stk_cache_disk *d, const char *name, const struct stat *seen);

/* Claims the fetch of a key for this process until unclaim. Returns false if another process has claimed it; true also if the file system has no locks. */
bool stk__cache_claim(struct stk_cache_disk *d, struct stk_cache_key key);
void stk__cache_unclaim(struct stk_cache_disk *d, struct stk_cache_key key);

/* The function that stk__cache_walk calls for the file of each entry, in any order, until it returns false. */
typedef bool stk_cache_visitor(void *user, const char *name, const struct stat *st);
void stk__cache_walk(const struct stk_cache_disk *d, stk_cache_visitor *visit, void *user);
uint64_t stk__cache_entry_bytes(uint64_t bytes, const char *uri); /* returns the size of an entry's file, for a payload of `bytes` bytes */

#endif
