/* SPDX-License-Identifier: Apache-2.0
 * Checks that Python can read texts without an error, so that a bad text makes its sample fail, and not the whole batch. */
#ifndef STK_FORMAT_TEXT_CHECK_H
#define STK_FORMAT_TEXT_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* Accepts what bytes.decode() accepts. Returns NULL for valid UTF-8; otherwise returns a text that describes the fault, and sets *at to its offset. */
const char *stk__utf8_check(const char *text, size_t n, size_t *at);
/* Accepts what json.loads() accepts, including NaN, Infinity and a byte order mark; but not UTF-16 and UTF-32, which json.loads() detects, and not values that
 * are nested more than 512 deep. Returns like stk__utf8_check. */
const char *stk__json_check(const char *text, size_t n, size_t *at);

#endif
