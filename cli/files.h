/* SPDX-License-Identifier: Apache-2.0
 * Reads and writes files safely in folders that other users can write to: opening a file never waits for the writer of a FIFO, and writing follows no link. */
#ifndef STOKER_CLI_FILES_H
#define STOKER_CLI_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Opens a regular file for reading, and sets *st to its properties. Returns its descriptor, or -1 with errno set: EISDIR for a folder, EINVAL for a FIFO, a
 * socket or a device. */
int open_regular(const char *path, struct stat *st);
/* Opens a file as open_regular does, but does not return its properties. Also opens pipes and terminals if their names are in /dev (except /dev/shm) or in
 * /proc, such as /dev/stdin or the /dev/fd/63 of a shell. */
int open_text(const char *path);
/* Writes a file under a random name next to `path` and then renames it, which replaces a regular file or a link of that name. A replaced file of this user
 * keeps its permissions. Devices and pipes of /dev and /proc are written to directly. On failure, returns false with errno set: EISDIR for a folder, EINVAL
 * for other things that are neither a file nor a link. */
bool write_file(const char *path, const void *data, size_t size);

/* Writes a message to `text`: why a file could not be written, and what to do. error: errno of write_file. */
void describe_unwritten(const char *path, int error, char *text, size_t capacity);

#endif
