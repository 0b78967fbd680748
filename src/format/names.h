/* SPDX-License-Identifier: Apache-2.0
 * Names of files without labels: those of a folder, the lines of a list, and what paths with braces and globs stand for. */
#ifndef STK_FORMAT_NAMES_H
#define STK_FORMAT_NAMES_H

#include "io/storage.h"
#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: none. */
struct stk_names {
	const char **at; /* of `text` */
	size_t count, room;
	char *text;
	size_t size, text_room;
};
void stk__names_free(struct stk_names *n);

/* The lines of a text file or URI, without the blanks at their ends; empty ones are left out. */
STK_MUST_USE enum stk_status stk__names_read_list(
	const struct stk_access *access, const char *path, struct stk_names *out, struct stk_error *err);

/* Files of a local folder and of the folders in it, not deeper, whose names match the glob; sorted by folder, then by name, as paths from the
 * folder on ("a.npy", "sub/b.npy"). Hidden ones count. STK_NOT_FOUND where there is none. */
STK_MUST_USE enum stk_status stk__names_read_folder(
	const char *folder, const char *glob, bool case_sensitive, struct stk_names *out, struct stk_error *err);

/* Paths with what shells expand: "shard-{000..127}.tar", "{train,val}.tar", and of local paths * ? [a-z], sorted. A path that is the name
 * of a local file is not expanded. STK_NOT_FOUND where nothing matches. */
STK_MUST_USE enum stk_status stk__names_expand(
	const struct stk_access *access, const char *const *paths, int32_t count, struct stk_names *out, struct stk_error *err);

/* To fill one: `add` each name, then `settle`, which turns the offsets in `at` into addresses. */
STK_MUST_USE enum stk_status stk__names_add(struct stk_names *n, const char *name, size_t length, struct stk_error *err);
void stk__names_settle(struct stk_names *n);

#endif
