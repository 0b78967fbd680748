/* SPDX-License-Identifier: Apache-2.0
 * A cache of objects in a folder, shared by the processes of a host without a daemon:
 *
 *   DIR/CACHEDIR.TAG     tells that the folder is a cache, to backups by its first line and to us by its second: what has none is left alone
 *   DIR/state            a page that all processes share: the bytes in use, and when the last two runs began
 *   DIR/3f/9a01...       an entry: a header, the bytes, the object's name
 *   DIR/tmp/PID-N-SIZE   an entry that is being written; it gets its name when it is complete
 *
 * An entry is found by a hash of the object's URI and range, and holds the URI, the object's ETag and size and a checksum, which each read verifies. So a
 * crash, a full disk or a flipped bit costs a download and nothing else, and nothing is ever synced to the disk.
 *
 * A run lasts as long as any process has the cache open, which a shared lock (flock) on `state` tells. Entries that neither this run nor the one before
 * has used are removed when room is needed; others stay, and what finds no room is not kept. A data set that is larger than the cache, read in another
 * order each epoch, so finds in it what fits: removing the least recently used would find nothing.
 *
 * Other users may be able to write to the folder. So all its files are opened below one descriptor of the folder, no link is followed, what is no regular file
 * counts as damaged, and `state` is read and written under a lock instead of being mapped: a mapped file that somebody cuts ends the process by a signal.
 *
 * Before a process fetches an object it locks the byte of `state` with the number of its key (an "open file description lock", which a dead process does not
 * keep); others wait for the entry instead of fetching it too. */
#ifndef STK_IO_CACHE_DISK_H
#define STK_IO_CACHE_DISK_H

#include "stoker/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { STK_CACHE_DIR = 3900, STK_CACHE_PATH = 4096, STK_CACHE_NAME = 34 }; /* names: "3f/9a01..." */

struct stk_cache_key {
	uint64_t a, b;
};

/* At the beginning of an entry's file. Numbers are little-endian. */
struct stk_cache_head {
	char magic[8];
	uint64_t a, b;          /* the key */
	int64_t offset, length; /* of the range that was asked for; length -1: to the end */
	int64_t object_size;    /* of the whole object; 0: not known */
	uint64_t tag;           /* hash of its ETag; 0: not known */
	uint64_t bytes, uri;    /* behind this header: the bytes, then so many of the URI */
	uint64_t bytes_hash;
	uint64_t head_hash; /* of what stands before, and the URI */
};

struct stk_cache_disk {
	char dir[STK_CACHE_DIR];
	int folder, tmp;
	int fd;                    /* of `state`; -1: it cannot be written to */
	int64_t begun, begun_last; /* this run, and the one before: seconds since 1970. They stay while any process has the cache open */
	uint64_t limit;
	_Atomic bool read_only, no_openat2;
	_Atomic bool scanned; /* old entries have been looked for in this process */
	_Atomic uint64_t number;
	pthread_mutex_t lock; /* of the page, among threads, and of all below */
	bool no_locks;
	int recounts;
};

/* limit 0: four fifths of what is free. Makes the folder. STK_INVALID: the folder holds other things. *notice: what is told once, "" for nothing: a folder that
 * cannot be written to is read all the same. */
STK_MUST_USE enum stk_status stk__cache_disk_open(
	struct stk_cache_disk *d, const char *dir, uint64_t limit, char notice[512], struct stk_error *err);
/* An existing cache, for who looks at it from outside: neither a run nor a process that uses it. STK_INVALID: the folder is none. */
STK_MUST_USE enum stk_status stk__cache_disk_look(struct stk_cache_disk *d, const char *dir, struct stk_error *err);
void stk__cache_disk_close(struct stk_cache_disk *d);

/* place: of the object's store, which its URI does not name. */
struct stk_cache_key stk__cache_key(const char *uri, int64_t offset, int64_t length, uint64_t place);
/* The name of its file in the folder. */
void stk__cache_name(struct stk_cache_key key, char name[STK_CACHE_NAME]);
/* Opens what has this name, which may be anything but a link: fstat it. cached: only if that takes no wait; else -1 with EAGAIN. */
int stk__cache_open(struct stk_cache_disk *d, const char *name, bool cached);
bool stk__cache_exists(const struct stk_cache_disk *d, const char *name);

/* Whether the header and the URI behind the bytes fit this key, this file size and each other. */
bool stk__cache_head_good(const struct stk_cache_head *h, const char *uri, struct stk_cache_key key, uint64_t file_size);
void stk__cache_head_seal(struct stk_cache_head *h, const char *uri);

uint64_t stk__cache_used(const struct stk_cache_disk *d); /* bytes of entries, and of those that are being written */
bool stk__cache_set_used(struct stk_cache_disk *d, uint64_t used);
/* Takes bytes of the limit, if need be by removing old entries. False: there is no room. */
bool stk__cache_reserve(struct stk_cache_disk *d, uint64_t bytes);
/* Writes an entry for which its room was reserved; what is not written is given back. STK_IO: the disk refuses it. */
STK_MUST_USE enum stk_status stk__cache_write(
	struct stk_cache_disk *d, struct stk_cache_head *h, const void *bytes, const char *uri, struct stk_error *err);
/* Removes an entry. seen: only if its file still is that one; nullable. True: it did so, and nobody else. */
bool stk__cache_remove(struct stk_cache_disk *d, const char *name, const struct stat *seen);

/* True: the claim is this process's, until it is given up; also where the file system has no locks. */
bool stk__cache_claim(struct stk_cache_disk *d, struct stk_cache_key key);
void stk__cache_unclaim(struct stk_cache_disk *d, struct stk_cache_key key);

/* Calls visit for the file of each entry, in no order, until it returns false. */
typedef bool stk_cache_visitor(void *user, const char *name, const struct stat *st);
void stk__cache_walk(const struct stk_cache_disk *d, stk_cache_visitor *visit, void *user);
uint64_t stk__cache_entry_bytes(uint64_t bytes, const char *uri); /* of its file */

#endif
