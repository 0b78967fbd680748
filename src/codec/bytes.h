/* SPDX-License-Identifier: Apache-2.0
 * Reads numbers of either byte order from files. */
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

#endif
