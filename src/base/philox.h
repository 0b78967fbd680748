/* SPDX-License-Identifier: Apache-2.0
 * Draws random numbers without state, by Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 *
 * The layout below is frozen, by known-answer tests, and versioned in the state: key = (seed mixed with the operator's stream), counter =
 * (position lo, position hi, epoch, draw / 4). A draw depends on nothing else: not on threads, ranks, batch size or earlier draws. */
#ifndef STK_BASE_PHILOX_H
#define STK_BASE_PHILOX_H

#include <stdint.h>

struct stk_philox_block {
	uint32_t v[4];
};

struct stk_philox_block stk__philox(uint64_t key, const uint32_t counter[4]);

/* The random stream of one operator for one sample. */
struct stk_random {
	uint64_t key;
	uint64_t position;
	uint32_t epoch, draw;
	struct stk_philox_block block; /* block number draw / 4, valid if draw % 4 != 0 */
};

/* Returns the beginning of a stream for one sample. seed: the pipeline's seed, or the operator's own; stream: the operator's number, or stk__random_stream
 * of a name, which is a hash. */
struct stk_random stk__random(uint64_t seed, uint64_t stream, int64_t epoch, int64_t position);
uint64_t stk__random_stream(const char *name);

uint32_t stk__random_u32(struct stk_random *r);
/* Draws a number in [0, 1) with 24 random bits, which a float represents exactly. */
float stk__random_float(struct stk_random *r);
/* Draws a number in [0, 1) with 53 random bits; takes two draws. */
double stk__random_double(struct stk_random *r);
/* Draws a whole number from 0 to n - 1, n > 0, with a bias of at most 2^-32. Always takes one draw, so that the stream's layout does not depend on values. */
uint32_t stk__random_below(struct stk_random *r, uint32_t n);

/* Mixes 64 bits by a bijection, the last part of SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t stk__mix64(uint64_t x);

#endif
