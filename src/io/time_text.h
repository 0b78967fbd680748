/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads times as servers write them, in seconds since 1970. Independent of the locale. */
#ifndef STK_IO_TIME_TEXT_H
#define STK_IO_TIME_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads an HTTP date (RFC 9110, 5.6.7) of n bytes: "Sun, 06 Nov 1994 08:49:37 GMT", or one of the two older forms, "Sunday, 06-Nov-94
 * 08:49:37 GMT" and "Sun Nov  6 08:49:37 1994". Returns false for any other text. */
bool stk__http_date(const char *text, size_t n, int64_t *out);

/* Reads a time of ISO 8601: "2026-01-31T12:00:00Z". A blank may replace the T, and a fraction of a second is ignored. An offset such as "+01:00" may replace
 * the Z; so may "UTC", which AWS's tools once wrote, or nothing, both of which mean Z. Returns false for any other text. */
bool stk__iso_time(const char *text, size_t n, int64_t *out);

#endif
