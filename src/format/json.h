/* SPDX-License-Identifier: Apache-2.0
 * JSON, read once from end to end without a tree of it, which would take ten times the text's size: whoever reads knows what comes and takes it.
 *
 * Functions take a value at `at`, behind any blanks, and leave `at` behind it. Text is UTF-8 as it is; a string that holds a zero byte is refused. */
#ifndef STK_FORMAT_JSON_H
#define STK_FORMAT_JSON_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_json {
	const char *at, *end, *begin;
	int64_t offset;   /* of `begin` in the file */
	bool whole;       /* begin to end is all of the file: messages tell the line, and that the file is empty or ends early */
	const char *path; /* named in messages */
	void *user;       /* whoever reads */
	struct stk_error *err;
};

enum { STK_JSON_DEPTH = 64 }; /* values nested more deeply are refused */

/* Fails with STK_CORRUPT: the file, the byte, the line where it is known, and what is wrong there. */
STK_MUST_USE enum stk_status stk__json_bad(const struct stk_json *j, const char *what);

void stk__json_blanks(struct stk_json *j);
bool stk__json_take(struct stk_json *j, char c); /* true and behind it where c is next */
bool stk__json_is(struct stk_json *j, char c);   /* true where c is next */
bool stk__json_null(struct stk_json *j);         /* true and behind it where null is next */

/* Copied, without escapes, with a NUL; what does not fit in `capacity` is refused. */
STK_MUST_USE enum stk_status stk__json_string(struct stk_json *j, char *out, size_t capacity);
/* A view of the text itself where the string has no escapes; else of `room`, into which it is copied. Not NUL-terminated. */
STK_MUST_USE enum stk_status stk__json_view(struct stk_json *j, char *room, size_t capacity, const char **text, size_t *n);
STK_MUST_USE enum stk_status stk__json_real(struct stk_json *j, double *out);
STK_MUST_USE enum stk_status stk__json_whole(struct stk_json *j, int64_t *out); /* within 2^53, also as 1.0 or 1e3 */
STK_MUST_USE enum stk_status stk__json_bool(struct stk_json *j, bool *out);
STK_MUST_USE enum stk_status stk__json_skip(struct stk_json *j); /* any value */

/* Calls `entry` for each entry of an object ('{'), behind its colon, or of a list ('['), where key is "". */
STK_MUST_USE enum stk_status stk__json_each(
	struct stk_json *j, char open, enum stk_status (*entry)(struct stk_json *j, const char *key, void *user), void *user);

#endif
