/* SPDX-License-Identifier: Apache-2.0
 * Defines the parts of random draws and of the shuffle that C and CUDA share. philox.h and order.h document them. */
#ifndef STK_BASE_PHILOX_HD_H
#define STK_BASE_PHILOX_HD_H

#include "base/hd.h"
#include "base/philox.h"

STK_HD uint64_t stk__mix64_hd(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

STK_HD struct stk_philox_block stk__philox_hd(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)p1;
		c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	struct stk_philox_block block = {{c0, c1, c2, c3}};
	return block;
}

STK_HD uint32_t stk__below_hd(uint32_t draw, uint32_t n)
{
	return (uint32_t)((uint64_t)draw * n >> 32);
}

STK_HD float stk__unit_hd(uint32_t draw)
{
	return (float)(draw >> 8) * 0x1p-24f;
}

/* One epoch's permutation of 0 .. n-1; stk__order_shuffle (order/order.h) makes it, and stk__shuffle_hd returns its entries. */
struct stk_shuffle {
	uint64_t key, n;
	uint32_t half, rounds; /* half: half the number of bits of a position in the Feistel network; 0: swap-or-not */
};

STK_HD uint64_t stk__shuffle_round_key(const struct stk_shuffle *s, uint32_t round)
{
	return s->key + (uint64_t)(round + 1) * 0x9E3779B97F4A7C15u;
}

/* Returns the entry at x of a swap-or-not shuffle. A round pairs each x with its partner `turn` - x (mod n), and tosses a coin for each pair: if it shows
 * heads, the two are swapped. With more rounds the distribution approaches the uniform one over all permutations, not only over the even ones. n < 2^32. */
STK_HD uint64_t stk__shuffle_swap(const struct stk_shuffle *s, uint64_t x)
{
	for (uint32_t i = 0; i < s->rounds; i++) {
		uint64_t round = stk__mix64_hd(stk__shuffle_round_key(s, i)), turn = (round >> 32) * s->n >> 32;
		uint64_t partner = turn >= x ? turn - x : turn + s->n - x, larger = x > partner ? x : partner;
		x = stk__mix64_hd(round + (larger + 1) * 0x9E3779B97F4A7C15u) >> 63 ? partner : x;
	}
	return x;
}

/* Applies the balanced Feistel network once to a number of 2 * half bits. The round function mixes the right half with a round key. Results for neighbouring
 * inputs must look unrelated, but the function need not be cryptographically secure. */
STK_HD uint64_t stk__shuffle_feistel(const struct stk_shuffle *s, uint64_t x)
{
	const uint64_t mask = ((uint64_t)1 << s->half) - 1;
	uint64_t left = x >> s->half, right = x & mask;
	for (uint32_t i = 0; i < s->rounds; i++) {
		uint64_t next = left ^ (stk__mix64_hd(stk__mix64_hd(right ^ stk__shuffle_round_key(s, i)) + s->key) & mask);
		left = right;
		right = next;
	}
	return left << s->half | right;
}

STK_HD uint64_t stk__shuffle_hd(const struct stk_shuffle *s, uint64_t x)
{
	if (!s->half)
		return stk__shuffle_swap(s, x);
	do /* fewer than 4 times on average, since the domain has fewer than 4n numbers */
		x = stk__shuffle_feistel(s, x);
	while (x >= s->n);
	return x;
}

#endif
