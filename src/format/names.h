/* SPDX-License-Identifier: Apache-2.0
 * Lists names of files without labels: those in a folder, the lines of a text file, or the paths that braces and globs stand for. */
#ifndef STK_FORMAT_NAMES_H
#define STK_FORMAT_NAMES_H

#include "format/list.h"
#include "stoker/status.h"
#include "storage/storage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list of names. All zero: empty. */
struct stk_names {
	const char **at; /* [name]: its address in `text`; before stk__names_settle, its offset in `text` */
	size_t count, capacity;
	char *text;
	size_t size, text_capacity;
};
void stk__names_free(struct stk_names *n);

/* Reads the lines of a text file or URI, without the blanks at their beginnings and ends; skips empty lines. */
STK_MUST_USE enum stk_status stk__names_read_list(
	const struct stk_access *access, const char *path, struct stk_names *out, struct stk_error *err);

/* Finds the files of a local folder and of its direct subfolders whose names match the pattern; sorted by folder, then by name, as paths relative to the
 * folder ("a.npy", "sub/b.npy"). Hidden files count. STK_NOT_FOUND: no file matches. */
STK_MUST_USE enum stk_status stk__names_read_folder(
	const char *folder, const char *glob, bool case_sensitive, struct stk_names *out, struct stk_error *err);

/* Expands paths as shells do: "shard-{000..127}.tar", "{train,val}.tar", and * ? [a-z], whose matches are sorted, in local paths and after the last slash of
 * URIs that can be listed. Indexes of archives (stk__archive_is_kept) are not matches, unless the pattern of a local path ends like their names. A path that
 * is the name of a local file is not expanded. STK_NOT_FOUND: a pattern has no match. Each name has a stk__names_object. */
STK_MUST_USE enum stk_status stk__names_expand(
	const struct stk_access *access, const char *const *paths, int32_t count, struct stk_names *out, struct stk_error *err);

/* Appends the local files and folders that a glob matches, in any order. Fails if a folder in which there may be matches cannot be read. */
STK_MUST_USE enum stk_status stk__names_glob(const char *glob, struct stk_names *found, struct stk_error *err);

/* Returns the properties that a listing gives for a name of a list from stk__names_expand; a size of -1 if the name comes from no listing. */
struct stk_list_object stk__names_object(const char *name);

/* To fill a list, call one of these for each name, then stk__names_settle, which turns the offsets in `at` into addresses. */
STK_MUST_USE enum stk_status stk__names_add(struct stk_names *n, const char *name, size_t length, struct stk_error *err);
STK_MUST_USE enum stk_status stk__names_add_object(
	struct stk_names *n, const char *name, size_t length, struct stk_list_object object, struct stk_error *err);
void stk__names_settle(struct stk_names *n);

#endif
