/* SPDX-License-Identifier: Apache-2.0
 * Parses JSON in one pass, without building a tree, which would take ten times the text's size: the caller knows the expected structure and takes value by
 * value.
 *
 * Functions read the value at `at`, after any blanks, and move `at` past it. Text is UTF-8 and is not converted; a string that holds a zero byte is refused. */
#ifndef STK_FORMAT_JSON_H
#define STK_FORMAT_JSON_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_json {
	const char *at, *end, *begin;
	int64_t offset; /* offset of `begin` in the file */
	bool whole;     /* begin to end is the whole file, so that messages can name the line, and say if the file is empty or ends early */
	const char *path; /* named in messages */
	void *user;       /* for the caller's functions; not used by the parser */
	struct stk_error *err;
};

enum { STK_JSON_DEPTH = 64 }; /* values nested more deeply are refused */

/* Fails with STK_CORRUPT: names the file, the byte, the line if it is known, and what is wrong there. */
STK_MUST_USE enum stk_status stk__json_bad(const struct stk_json *j, const char *what);

void stk__json_blanks(struct stk_json *j);
bool stk__json_take(struct stk_json *j, char c); /* consumes `c` if it is the next character, and returns whether it was */
bool stk__json_is(struct stk_json *j, char c);   /* returns whether `c` is the next character */
bool stk__json_null(struct stk_json *j);         /* consumes null if it comes next, and returns whether it did */

/* Returns a view of the text itself if the string has no escapes; otherwise copies it to `buffer` and returns a view of that. Not NUL-terminated. */
STK_MUST_USE enum stk_status stk__json_view(struct stk_json *j, char *buffer, size_t capacity, const char **text, size_t *n);
STK_MUST_USE enum stk_status stk__json_real(struct stk_json *j, double *out);
STK_MUST_USE enum stk_status stk__json_whole(struct stk_json *j, int64_t *out); /* within 2^53, also as 1.0 or 1e3 */
STK_MUST_USE enum stk_status stk__json_bool(struct stk_json *j, bool *out);
STK_MUST_USE enum stk_status stk__json_skip(struct stk_json *j); /* skips any value */

/* Calls `entry`, which must consume the value, for each entry of an object ('{'), with `at` after the colon, or of a list ('['), with key "". A key of 64
 * bytes or more is passed as "". Ends at the first failure, which it returns. */
STK_MUST_USE enum stk_status stk__json_each(
	struct stk_json *j, char open, enum stk_status (*entry)(struct stk_json *j, const char *key, void *user), void *user);

#endif
