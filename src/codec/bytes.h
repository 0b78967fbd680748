/* SPDX-License-Identifier: Apache-2.0
 * Reads and writes numbers in either byte order. */
#ifndef STK_CODEC_BYTES_H
#define STK_CODEC_BYTES_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t stk__get16(const uint8_t *p, bool little)
{
	return little ? p[0] | (uint32_t)p[1] << 8 : (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t stk__get32(const uint8_t *p, bool little)
{
	return little ? stk__get16(p, true) | stk__get16(p + 2, true) << 16 : stk__get16(p, false) << 16 | stk__get16(p + 2, false);
}

static inline uint64_t stk__get64(const uint8_t *p, bool little)
{
	return little ? stk__get32(p, true) | (uint64_t)stk__get32(p + 4, true) << 32
		      : (uint64_t)stk__get32(p, false) << 32 | stk__get32(p + 4, false);
}

/* Writes the lower 16 bits of v. */
static inline void stk__put16(uint8_t *p, uint32_t v, bool little)
{
	p[!little] = (uint8_t)v;
	p[little] = (uint8_t)(v >> 8);
}

static inline void stk__put32(uint8_t *p, uint32_t v, bool little)
{
	stk__put16(p + 2 * !little, v, little);
	stk__put16(p + 2 * little, v >> 16, little);
}

#endif
