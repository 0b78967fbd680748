/* SPDX-License-Identifier: Apache-2.0
 * The default shuffle: a keyed bijection, so that any position is found without those before it. */
#include "order/order.h"

#include <assert.h>

static unsigned bits_of(uint64_t x)
{
	return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

struct stk_shuffle stk__order_shuffle_key(uint64_t seed, int64_t epoch, int64_t n)
{
	assert(n > 0 && n <= (int64_t)1 << 62);
	unsigned bits = bits_of((uint64_t)n - 1);
	return (struct stk_shuffle){
		.key = stk__mix64(stk__mix64(seed + 0x9E3779B97F4A7C15u) + (uint64_t)epoch * 0xD1342543DE82EF95u),
		.n = (uint64_t)n,
		.half = bits < 2 ? 1 : (bits + 1) / 2,
		.rounds = bits < 16 ? 24 : 8,
	};
}

int64_t stk__order_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t i)
{
	assert(i >= 0 && i < n);
	const struct stk_shuffle s = stk__order_shuffle_key(seed, epoch, n);
	return (int64_t)stk__shuffle_hd(&s, (uint64_t)i);
}
