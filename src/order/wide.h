/* SPDX-License-Identifier: Apache-2.0
 * Divides products of two 64-bit numbers: epochs times samples can need more than 64 bits before the division. */
#ifndef STK_ORDER_WIDE_H
#define STK_ORDER_WIDE_H

#include <stdint.h>

__extension__ typedef unsigned __int128 stk_wide;

struct stk_quotient {
	int64_t quotient, remainder;
};

/* Returns the quotient and the remainder of (a * b + c) / d, for a, b and c >= 0 and d >= 1; the quotient must fit in an int64_t. Does not use the operator `/`
 * for 128 bits, because it calls a function of the compiler's runtime library. Releases are linked without that library: Zig's would also bring its own memcpy,
 * cos and others, which would replace the C library's. */
static inline struct stk_quotient stk__wide_divide(int64_t a, int64_t b, int64_t c, int64_t d)
{
	int64_t n;
	if (!__builtin_mul_overflow(a, b, &n) && !__builtin_add_overflow(n, c, &n))
		return (struct stk_quotient){n / d, n % d};
	stk_wide wide = (stk_wide)a * (stk_wide)b + (stk_wide)c;
	uint64_t quotient = 0, remainder = 0;
	for (int bit = 127; bit >= 0; bit--) {
		remainder = remainder << 1 | (uint64_t)(wide >> bit & 1);
		quotient <<= 1;
		if (remainder >= (uint64_t)d) {
			remainder -= (uint64_t)d;
			quotient |= 1;
		}
	}
	return (struct stk_quotient){(int64_t)quotient, (int64_t)remainder};
}

#endif
