/* SPDX-License-Identifier: Apache-2.0
 * Whether bytes are what Python will read without an error, so that a bad text is its sample's failure, and not that of the batch it came with. */
#ifndef STK_FORMAT_TEXT_CHECK_H
#define STK_FORMAT_TEXT_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* As bytes.decode(). NULL: it is UTF-8; else what is wrong, at *at. */
const char *stk__utf8_check(const char *text, size_t n, size_t *at);
/* As json.loads(), which also takes NaN, Infinity and a byte order mark; but UTF-16 and UTF-32, which json.loads() guesses, are not taken. */
const char *stk__json_check(const char *text, size_t n, size_t *at);

#endif
