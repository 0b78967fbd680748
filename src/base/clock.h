/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BASE_CLOCK_H
#define STK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t stk__clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the time in nanoseconds since 1970, for comparison with times of files. */
static inline int64_t stk__wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns from_ns plus `ms` milliseconds in nanoseconds, or INT64_MAX, which no clock reaches, if the sum overflows. Neither argument may be negative. */
static inline int64_t stk__clock_after_ms(int64_t from_ns, int64_t ms)
{
	int64_t t;
	return __builtin_mul_overflow(ms, (int64_t)1000000, &t) || __builtin_add_overflow(t, from_ns, &t) ? INT64_MAX : t;
}

/* Returns the time `ms` milliseconds from now; INT64_MAX if `ms` is negative, which means no limit. */
static inline int64_t stk__clock_deadline(int64_t ms)
{
	return ms < 0 ? INT64_MAX : stk__clock_after_ms(stk__clock_ns(), ms);
}

#endif
