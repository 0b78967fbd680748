/* SPDX-License-Identifier: Apache-2.0
 * Times as servers write them, in seconds since 1970. The same in any locale. */
#ifndef STK_IO_TIME_TEXT_H
#define STK_IO_TIME_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A date of HTTP (RFC 9110, 5.6.7) in n bytes: "Sun, 06 Nov 1994 08:49:37 GMT", or one of the two older forms, "Sunday, 06-Nov-94 08:49:37 GMT" and
 * "Sun Nov  6 08:49:37 1994". False: it is none. */
bool stk__http_date(const char *text, size_t n, int64_t *out);

/* A time of ISO 8601 to the second: "2026-01-31T12:00:00Z", also with a fraction, which is left out, and with an offset, as "+01:00", in place of
 * the Z; "UTC", as AWS's tools once wrote, and nothing are Z. False: it is none. */
bool stk__iso_time(const char *text, size_t n, int64_t *out);

#endif
