/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the bits of a unit of H.264 or HEVC, without its escape bytes: the bytes 3 that follow two zeros, and that only keep start codes from occurring in the
 * unit. */
#ifndef STK_MEDIA_UNIT_BITS_H
#define STK_MEDIA_UNIT_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_unit_bits {
	const uint8_t *at, *end; /* the bytes that have not been read yet */
	int zeros;               /* number of zeros in succession before `at` */
	int left;                /* number of bits of `byte` that have not been read yet */
	uint8_t byte;
	bool ended; /* whether bits after the end were asked for; these are 0 */
};

static inline struct stk_unit_bits stk__unit_bits(const uint8_t *data, size_t size)
{
	return (struct stk_unit_bits){.at = data, .end = data + size};
}

/* Reads n bits, at most 32, as a number. */
uint32_t stk__take_bits(struct stk_unit_bits *b, int n);
/* Read an unsigned and a signed number in the Exp-Golomb code of both codecs. */
uint32_t stk__take_ue(struct stk_unit_bits *b);
int32_t stk__take_se(struct stk_unit_bits *b);

#endif
