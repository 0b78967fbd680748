/* SPDX-License-Identifier: Apache-2.0
 * Opens and writes files in folders to which other users may write.
 *
 * Reading: a path may lead to a FIFO, a device or an endless file of /proc. stk__file_open opens only regular files and never waits for a writer.
 * Writing: a file is written under a random name in the folder of its final name, and is renamed when it is complete. A link with one of these names is
 * replaced or refused, and never followed. Devices and pipes of /dev and /proc are written directly. */
#ifndef STK_BASE_FILE_H
#define STK_BASE_FILE_H

#include "stoker/status.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Maximum number of bytes that are read from files which report a size of 0 but still have contents, like those of /proc. */
enum { STK_FILE_UNSIZED_MOST = 16 << 20 };

/* Returns the path of a "file://" URI (RFC 8089): the part after "file://" or "file://localhost". Returns other paths as they are. Does not decode escapes
 * such as %20. */
const char *stk__file_path(const char *path);
/* Returns advice, as the end of a message about a path that does not exist, if the path begins with ~, looks like a mistyped URI ("S3://b", "s3:/b"), is a
 * "file:" URI that stk__file_path does not read, or is one that contains a %; otherwise "". */
const char *stk__uri_hint(const char *path);
/* Opens a regular file for reading; follows symbolic links. Returns its descriptor and fills *st, or returns -1 and sets errno. On failure, *st is zero if
 * the path could not be opened; otherwise st->st_mode is the type of the object, which is not a regular file. */
int stk__file_open(const char *path, struct stat *st);
/* Opens a file of any kind for reading with O_NONBLOCK, so that a FIFO does not make it wait for a writer. If another process has a lease on a regular file
 * (servers of Samba and NFS take leases for their clients), waits until the lease ends. Returns a descriptor, or -1 with errno set. */
int stk__file_open_any(const char *path);
/* Returns the error of a stk__file_open that has just failed, from errno and *st. */
STK_MUST_USE enum stk_status stk__file_not_opened(const char *path, const struct stat *st, struct stk_error *err);
/* Returns the next entry of a folder, except . and .. ; NULL with errno 0 at the end, and NULL with another errno if reading fails. */
const struct dirent *stk__next_entry(DIR *dir);
/* Returns whether a name is that of the folder in the root of a file system where fsck puts what it finds, which only root can read. */
bool stk__is_system_folder(const char *name);
/* Returns the kind of a file that is not regular, for messages: "a FIFO", "a directory" and so on. */
const char *stk__file_kind(mode_t mode);

/* Converts a time of a file to nanoseconds since 1970. */
static inline int64_t stk__file_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A file that is being written. */
struct stk_new_file {
	int fd;     /* descriptor to write to */
	int folder; /* descriptor of the file's folder; -1: the path is a device or pipe of /dev or /proc and is written directly */
	char part[256], name[256];
};

/* Creates the file that will become `path`. mode: permissions of a new file, before the umask; if the file replaces one that belongs to this user, it keeps
 * the old file's mode. Returns false and sets errno: EISDIR for a directory at `path`, EINVAL for a FIFO, socket or device. */
bool stk__new_file_begin(struct stk_new_file *f, const char *path, mode_t mode);
bool stk__new_file_write(struct stk_new_file *f, const void *data, size_t n);
/* Closes the file, and renames it to its final name if `ok`, or removes it otherwise. Returns whether the file is complete under its final name. Sets
 * errno if closing or renaming failed; leaves errno unchanged if `ok` is false. */
bool stk__new_file_end(struct stk_new_file *f, bool ok);

/* Returns the error of a write that has just failed, from errno. what: a noun for the file in the message, such as "index". */
STK_MUST_USE enum stk_status stk__file_not_written(const char *path, const char *what, struct stk_error *err);

/* Writes the whole buffer to fd. Returns false and sets errno on failure. */
bool stk__write_bytes(int fd, const void *data, size_t n);
/* Returns a random number for a file's name. Other processes can guess it only if getrandom fails, as on old kernels. */
uint64_t stk__random_name(void);

#endif
