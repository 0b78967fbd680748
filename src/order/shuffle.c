/* SPDX-License-Identifier: Apache-2.0
 * The default shuffle: a keyed bijection, so that any position is found without those before it. */
#include "order/order.h"

#include "base/philox.h"

#include <assert.h>

static unsigned bits_of(uint64_t x)
{
	return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

/* Balanced Feistel network on 2 * half bits. The round function mixes the right half with a round key; what it need be is hard to guess from
 * neighbours, not hard to break. */
static uint64_t encrypt(uint64_t key, unsigned half, int rounds, uint64_t x)
{
	const uint64_t mask = ((uint64_t)1 << half) - 1;
	uint64_t left = x >> half, right = x & mask;
	for (int i = 0; i < rounds; i++) {
		uint64_t round_key = key + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
		uint64_t next = left ^ (stk__mix64(stk__mix64(right ^ round_key) + key) & mask);
		left = right;
		right = next;
	}
	return left << half | right;
}

int64_t stk__order_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t i)
{
	assert(n > 0 && n <= (int64_t)1 << 62 && i >= 0 && i < n);
	const uint64_t key = stk__mix64(stk__mix64(seed + 0x9E3779B97F4A7C15u) + (uint64_t)epoch * 0xD1342543DE82EF95u);
	unsigned bits = bits_of((uint64_t)n - 1);
	unsigned half = bits < 2 ? 1 : (bits + 1) / 2;
	int rounds = bits < 16 ? 24 : 8;
	uint64_t x = (uint64_t)i;
	do /* fewer than 4 times on average: the domain is below 4n */
		x = encrypt(key, half, rounds, x);
	while (x >= (uint64_t)n);
	return (int64_t)x;
}
