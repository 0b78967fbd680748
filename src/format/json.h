/* SPDX-License-Identifier: Apache-2.0
 * Parses JSON in one pass, without building a tree, which would take ten times the text's size: the caller knows the expected structure and reads value by
 * value.
 *
 * Functions read the value at `at`, after any blanks, and move `at` to the end of the value. Text is UTF-8 and is not converted; a string that contains a zero
 * byte is an error. */
#ifndef STK_FORMAT_JSON_H
#define STK_FORMAT_JSON_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_json {
	const char *at, *end, *begin;
	int64_t offset;   /* offset of `begin` in the file, in bytes */
	bool whole;       /* true if the text is the whole file: messages then give the line, and say if the file is empty or ends early */
	const char *path; /* path of the file, for messages */
	void *user;       /* data of the caller's functions; not used by the parser */
	struct stk_error *err;
};

enum { STK_JSON_DEPTH = 64 }; /* maximum depth; more deeply nested values are an error */

/* Fails with STK_CORRUPT. The message gives the file, the offset, the line if `whole` is set, and `what`, the fault. */
STK_MUST_USE enum stk_status stk__json_bad(const struct stk_json *j, const char *what);

void stk__json_blanks(struct stk_json *j);
bool stk__json_take(struct stk_json *j, char c); /* consumes `c` if it is the next character, and returns whether it was */
bool stk__json_is(struct stk_json *j, char c);   /* returns whether `c` is the next character */
bool stk__json_null(struct stk_json *j);         /* consumes null if it is the next value, and returns whether it was */

/* Reads a string. Sets *text and *n to a view of the text itself if the string has no escapes; otherwise decodes it to `buffer` and sets them to a view of
 * the buffer. Not NUL-terminated. */
STK_MUST_USE enum stk_status stk__json_view(struct stk_json *j, char *buffer, size_t capacity, const char **text, size_t *n);
STK_MUST_USE enum stk_status stk__json_real(struct stk_json *j, double *out);
/* Reads a whole number from -2^53 to 2^53; accepts 1.0 and 1e3. */
STK_MUST_USE enum stk_status stk__json_whole(struct stk_json *j, int64_t *out);
STK_MUST_USE enum stk_status stk__json_bool(struct stk_json *j, bool *out);
STK_MUST_USE enum stk_status stk__json_skip(struct stk_json *j); /* skips any value */

/* For each entry of an object ('{') or a list ('['), calls `entry`, which must read the value: in an object with `at` after the colon, in a list with the
 * key "". A key of 64 bytes or more is passed as "". Returns the first status of `entry` that is not STK_OK. */
STK_MUST_USE enum stk_status stk__json_each(
	struct stk_json *j, char open, enum stk_status (*entry)(struct stk_json *j, const char *key, void *user), void *user);

#endif
