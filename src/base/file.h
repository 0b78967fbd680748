/* SPDX-License-Identifier: Apache-2.0
 * Opens and writes files in folders that other users may write to.
 *
 * Reading: a path may lead to a FIFO, a device or an endless file of /proc. stk__file_open opens regular files only and never waits for a writer.
 *
 * Writing: a file is written under a random name next to its final one, and is renamed when it is complete. A link that stands at either name is replaced or
 * refused, and never followed. Devices and pipes of /dev and /proc are written
 * directly. */
#ifndef STK_BASE_FILE_H
#define STK_BASE_FILE_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Files that report a size of 0 but still give bytes, like those of /proc, are read up to this many bytes. */
enum { STK_FILE_UNSIZED_MOST = 16 << 20 };

/* Returns the path that a "file://" URI names (RFC 8089): what follows "file://" or "file://localhost". Other paths are returned as they are. Escapes such as
 * %20 are not decoded. */
const char *stk__file_path(const char *path);
/* Returns a hint for the message about a path that does not exist, if the path is a "file:" URI of another form than stk__file_path reads; else "". */
const char *stk__file_uri_hint(const char *path);
/* Opens a regular file for reading; follows symbolic links. Returns its descriptor and fills *st, or returns -1 and sets errno. *st is zeroed if the path
 * could not be opened at all; otherwise st->st_mode holds the type of the object that is not a regular file. */
int stk__file_open(const char *path, struct stat *st);
/* Opens a file of any kind with O_NONBLOCK: a FIFO must not make it wait for a writer. If another process holds a lease on a regular file (servers of Samba
 * and NFS take leases for their clients), waits until the lease is given up. -1: errno is set. */
int stk__file_open_any(const char *path);
/* Returns the error of a stk__file_open that has just failed; reads errno. */
STK_MUST_USE enum stk_status stk__file_not_opened(const char *path, const struct stat *st, struct stk_error *err);
/* Returns "a FIFO", "a directory", ... */
const char *stk__file_kind(mode_t mode);

/* Returns a time of a file in nanoseconds. */
static inline int64_t stk__file_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A file that is being written. */
struct stk_new_file {
	int fd;     /* descriptor to write to */
	int folder; /* descriptor of the file's folder; -1: a device or pipe of /dev or /proc, which is written to directly */
	char part[256], name[256];
};

/* Creates the file that will become `path`. mode: permissions of a new file, before the umask; if the file replaces one that belongs to this user, it keeps
 * the old file's mode. Returns false and sets errno: EISDIR for a directory at `path`, EINVAL for a FIFO, socket or device. */
bool stk__new_file_begin(struct stk_new_file *f, const char *path, mode_t mode);
bool stk__new_file_write(struct stk_new_file *f, const void *data, size_t n);
/* Closes the file, and renames it to its final name if `good`, or removes it otherwise. Returns whether the file is complete under its final name. Sets
 * errno if closing or renaming failed; leaves errno unchanged if good is false. */
bool stk__new_file_end(struct stk_new_file *f, bool good);

/* Returns the error of a write that has just failed; reads errno. what: a noun for the file in the message, such as "index". */
STK_MUST_USE enum stk_status stk__file_not_written(const char *path, const char *what, struct stk_error *err);

/* Writes the whole buffer to fd. Returns false and sets errno on failure. */
bool stk__write_bytes(int fd, const void *data, size_t n);
/* Returns a random number for a file's name. Other processes can only guess it if the kernel has no getrandom. */
uint64_t stk__random_name(void);

#endif
