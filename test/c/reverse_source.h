/* SPDX-License-Identifier: Apache-2.0
 *
 * A source for tests, "reverse://NAME", whose requests complete in waves: `latency` after the first request of a wave, a timer thread completes all requests
 * that were submitted by then, latest first. Any number may be in flight. The bytes of an object depend only on its uri (reverse_size, reverse_byte). */
#ifndef STK_TEST_REVERSE_SOURCE_H
#define STK_TEST_REVERSE_SOURCE_H

#include "io/io.h"

struct reverse_source;

/* Creates the source. latency is in nanoseconds. Returns NULL if memory runs out. */
struct reverse_source *reverse_source_create(int64_t latency);
extern const struct stk_source_ops reverse_source_ops;
/* Returns the largest number of requests that were in flight at once. */
int reverse_source_peak(struct reverse_source *s);
/* Return the size of the object `uri`, and its byte i. */
size_t reverse_size(const char *uri);
uint8_t reverse_byte(const char *uri, size_t i);

#endif
