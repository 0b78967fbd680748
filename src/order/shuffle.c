/* SPDX-License-Identifier: Apache-2.0
 * Makes the default shuffle. It is a bijection that depends on a key, so that the sample at a position is computed without the positions before it. */
#include "order/order.h"

#include <assert.h>

/* With 48 rounds the probabilities of the permutations of 2 to 7 samples, computed exactly for ideal coins, differ from 1/n! by less than a part in 10^9.
 * Each further round divides the difference by 1.6 or more. In a larger set a round chooses among more pairings, so 48 rounds suffice there too. */
enum { SWAP_ROUNDS = 48, SWAP_MOST = 4096 };

static unsigned bits_of(uint64_t x)
{
	return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

struct stk_shuffle stk__order_shuffle(const struct stk_order *o, int64_t epoch)
{
	assert(o->size > 0 && o->size <= (int64_t)1 << 62);
	struct stk_shuffle s = {
		.key = stk__mix64(stk__mix64(o->seed + 0x9E3779B97F4A7C15u) + (uint64_t)epoch * 0xD1342543DE82EF95u),
		.n = (uint64_t)o->size,
		.rounds = SWAP_ROUNDS,
	};
	if (o->size <= SWAP_MOST && !o->version_1)
		return s;
	unsigned bits = bits_of((uint64_t)o->size - 1);
	s.half = bits < 2 ? 1 : (bits + 1) / 2;
	s.rounds = bits < 16 ? 24 : 8;
	return s;
}
