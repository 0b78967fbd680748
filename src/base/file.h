/* SPDX-License-Identifier: Apache-2.0
 * Files in folders that other users may write to.
 *
 * Reading: a path may lead to a FIFO, a device or an endless file of /proc. stk__file_open opens regular files only and never waits for a writer.
 *
 * Writing: a file is written under a random name next to its own and gets its own when it is complete. A link that stands at either name is replaced or
 * refused, and never followed. */
#ifndef STK_BASE_FILE_H
#define STK_BASE_FILE_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Files that report a size of 0 and still give bytes, as those of /proc do, are read up to this many bytes. */
enum { STK_FILE_UNSIZED_MOST = 16 << 20 };

/* Opens a regular file for reading, also through symbolic links. Returns its descriptor and fills *st, or returns -1 and sets errno. *st is zeroed if the
 * path could not be opened at all; otherwise st->st_mode says what it is instead of a file. */
int stk__file_open(const char *path, struct stat *st);
/* Opens a file whose open with O_NONBLOCK failed with EAGAIN. Somebody holds a lease on it, as servers of Samba and NFS do for their clients, and opening it
 * waits until the lease is given up. The file is looked at first and then opened by its descriptor, so that no FIFO can take its place in between. */
int stk__file_open_leased(const char *path);
/* The error of a stk__file_open that has just failed: reads errno. */
STK_MUST_USE enum stk_status stk__file_not_opened(const char *path, const struct stat *st, struct stk_error *err);
/* "a FIFO", "a directory", ... */
const char *stk__file_kind(mode_t mode);

/* A file that is being written. */
struct stk_new_file {
	int fd;     /* to write to */
	int folder; /* -1: a device or pipe of /dev or /proc, which is written to directly */
	char part[256], name[256];
};

/* Creates the file that will become `path`. mode: of a new file, less the umask; a file of this user's that is replaced keeps its mode. Returns false with
 * errno: EISDIR, or EINVAL for a FIFO, socket or device in its place. */
bool stk__new_file_begin(struct stk_new_file *f, const char *path, mode_t mode);
bool stk__new_file_write(struct stk_new_file *f, const void *data, size_t n);
/* Closes the file. good: gives it its name; otherwise it is removed. Returns false with errno if it did not get its name; errno stays as it was if good is
 * false. */
bool stk__new_file_end(struct stk_new_file *f, bool good);

/* The error of a write that has just failed: reads errno. what: "index", ... */
STK_MUST_USE enum stk_status stk__file_not_written(const char *path, const char *what, struct stk_error *err);

/* Writes the whole buffer to fd. False with errno. */
bool stk__write_bytes(int fd, const void *data, size_t n);
/* A number that other processes cannot guess. */
uint64_t stk__random_name(void);

#endif
