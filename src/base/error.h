/* SPDX-License-Identifier: Apache-2.0
 * Fills struct stk_error. The functions for failures take a nullable error and return the code, so that a failure is one line:
 *     return stk__fail(err, STK_CORRUPT, "the header ends after %zu bytes", n); */
#ifndef STK_BASE_ERROR_H
#define STK_BASE_ERROR_H

#include "stoker/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Sets code and message, and clears all other members of *err. Returns code. err may be NULL. */
STK_MUST_USE enum stk_status stk__fail(struct stk_error *err, enum stk_status code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Like stk__fail with STK_NOT_FOUND, because a file, folder or object does not exist: also sets err->missing. */
STK_MUST_USE enum stk_status stk__fail_missing(struct stk_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Like stk__fail, with ": " and the text of errnum appended. The code: ENOENT and ENOTDIR give NOT_FOUND and set err->missing, ENOMEM gives NO_MEMORY, all
 * others IO. */
STK_MUST_USE enum stk_status stk__fail_errno(struct stk_error *err, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Like stk__fail, with a new message for the failure that *err already describes: keeps err->missing. The arguments must not lie in *err. */
STK_MUST_USE enum stk_status stk__fail_again(struct stk_error *err, enum stk_status code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Fails with STK_LIMIT because a sample takes more than memory_limit. need: number of bytes that are known to be needed so far. */
STK_MUST_USE enum stk_status stk__fail_memory_limit(struct stk_error *err, size_t need, size_t limit);

/* Returns the number of bytes, from the beginning of a URI, that a message may show. Of a URI that begins with http:// or https://, this is the part before the
 * query, because a query can contain a signature that gives everyone access to the object; or only the scheme, if a user's name, perhaps with a password,
 * precedes the host. Other URIs may be shown whole. */
int stk__uri_shown(const char *uri);

/* Returns whether a message contains the name of a file. A name with a dot or a slash counts anywhere in the message. Any other name may also be a word of
 * the message, as "empty" is in "it is empty". So it counts only before a colon or quotation mark, and after a blank or quotation mark or at the beginning. */
bool stk__names_file(const char *message, const char *name);

/* Returns STK_INVALID with the name of the function and of the first pointer that is NULL, or STK_OK if no pointer is NULL. */
#define STK_NEED(err, ...)                                                                                                                 \
	stk__need(__func__, #__VA_ARGS__, (const void *const[]){__VA_ARGS__}, sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *), \
		err)
STK_MUST_USE enum stk_status stk__need(
	const char *function, const char *names, const void *const *pointers, size_t n, struct stk_error *err);

/* Add the operator or the sample to an error of a lower layer, which does not know them. Members that are already set stay. */
void stk__error_set_op(struct stk_error *err, const char *op);
void stk__error_set_sample(struct stk_error *err, const char *uri, int64_t epoch, int64_t sample);

#endif
