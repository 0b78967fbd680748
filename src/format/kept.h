/* SPDX-License-Identifier: Apache-2.0
 * Stores indexes of archives and videos for later runs, in $XDG_CACHE_HOME/stoker/indexes, or ~/.cache/stoker/indexes. The name of an index is a hash of the
 * whole name of its archive or video. */
#ifndef STK_FORMAT_KEPT_H
#define STK_FORMAT_KEPT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes the whole name of a file: its absolute path, or the URI of an object. Returns false if a local file does not exist, or if the name is too long. */
bool stk__kept_name(const char *path, char out[PATH_MAX]);
/* Writes to `out` the path of the stored index of the file with this whole name. Returns false if the environment names no folder for indexes, or if others
 * can write to it. */
bool stk__kept_path(const char *full_name, char out[PATH_MAX]);
/* Writes a file, and creates the folders in its path. Returns false if that fails. Changes `path` while it runs, but restores it. */
bool stk__kept_write(char path[PATH_MAX], const void *data, size_t n);

#endif
