/* SPDX-License-Identifier: Apache-2.0
 *
 * A source for tests, "reverse://NAME": requests complete in waves: `latency` after the first of a wave, all that were submitted
 * by then complete, the latest first, on one timer thread. Any number may be in flight. The bytes of an object are a function of its uri (reverse_fill). */
#ifndef STK_TEST_REVERSE_SOURCE_H
#define STK_TEST_REVERSE_SOURCE_H

#include "io/io.h"

struct reverse_source;

/* latency in nanoseconds. NULL: out of memory. */
struct reverse_source *reverse_source_create(int64_t latency);
extern const struct stk_source_ops reverse_source_ops;
/* The most requests that were in flight at once. */
int reverse_source_peak(struct reverse_source *s);
/* Bytes that uri holds: its size, and byte i. */
size_t reverse_size(const char *uri);
uint8_t reverse_byte(const char *uri, size_t i);

#endif
