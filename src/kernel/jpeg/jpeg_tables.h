/* SPDX-License-Identifier: Apache-2.0
 *
 * Huffman tables laid out for decoding several symbols a lookup (ITU-T T.81 annexes C and F).
 *
 * AC symbols of photographs are short: a code and its extra bits take 5.5 bits on average. One lookup of 11 bits therefore gives, where they fit,
 * a whole first coefficient (its value too) and the code of a second, whose extra bits the decoder picks out by arithmetic. Entries are made so
 * that the decoder needs no branch to use them: what an entry lacks is stored to a slot outside the block. */
#ifndef STK_KERNEL_JPEG_TABLES_H
#define STK_KERNEL_JPEG_TABLES_H

#include "kernel/jpeg/jpeg_plan.h"

enum {
	STK_JPEG_PAIR_BITS = 11, /* lookup of one or two AC coefficients */
	STK_JPEG_SKIP_BITS = 12, /* lookup that only passes over coefficients */
	STK_JPEG_DC_BITS = 9,
	STK_JPEG_BAND_BITS = 10,   /* lookup of one symbol of a progressive scan */
	STK_JPEG_MAX_DC_SIZE = 11, /* bits of a DC difference of 8-bit samples; longer ones are not taken */
	STK_JPEG_END = 128,        /* added to the position by an end of block: a block ends well at 64 or in END+1 .. END+63 */
};

/* What a lookup says. The first coefficient goes to zigzag position k + first_at, the second to k + advance - 1, k being the next position. */
struct stk_jpeg_ac_entry {
	uint8_t length;       /* bits used; 0: the code is longer than the lookup, or there is none (advance is 64 then) */
	uint8_t advance;      /* positions used, END included */
	uint8_t first_at;     /* 64 where there is no first coefficient: outside the block */
	uint8_t second_bits;  /* bits before the second's extra bits */
	uint8_t second_shift; /* 64 - their number */
	int8_t first_value;
	int16_t second_bias; /* added when the first extra bit is 0: 1 - 2^number [F.2.2.1, EXTEND] */
};

/* Codes that a lookup does not hold [F.2.2.3]: limit[n] is one past the last code of n bits, aligned to 16; 0 below the first in use. */
struct stk_jpeg_codes {
	uint32_t limit[17];
	int32_t offset[17]; /* of the values of n bits: value index - code */
	uint8_t values[256];
};

/* Lengths stand in arrays of their own: the next lookup waits for them alone, and an array of bytes needs no address arithmetic. */
struct stk_jpeg_ac_table {
	_Alignas(64) struct stk_jpeg_ac_entry pair[1 << STK_JPEG_PAIR_BITS];
	uint8_t pair_length[1 << STK_JPEG_PAIR_BITS];
	/* Without values: as many whole symbols as fit. advance is 255 where not even one does. */
	uint8_t skip_length[1 << STK_JPEG_SKIP_BITS], skip_advance[1 << STK_JPEG_SKIP_BITS];
	uint8_t first_length[1 << STK_JPEG_PAIR_BITS]; /* of a pair's first coefficient alone */
	struct stk_jpeg_codes codes;
};

struct stk_jpeg_dc_entry {
	uint8_t code; /* bits of the code */
	uint8_t size; /* extra bits */
};

struct stk_jpeg_dc_table {
	uint8_t length[1 << STK_JPEG_DC_BITS]; /* code and extra bits; 0 as above */
	struct stk_jpeg_dc_entry entry[1 << STK_JPEG_DC_BITS];
	struct stk_jpeg_codes codes;
};

/* A band of AC coefficients in a progressive scan [G.1.2]. `first`: a whole coefficient, for first scans; advance is END for an end of this block
 * alone and 255 for what takes a closer look. `symbol`: bits is 0 where the code is longer than the lookup, or there is none. */
struct stk_jpeg_band_entry {
	uint8_t length, advance;
	int16_t value;
};

struct stk_jpeg_symbol {
	uint8_t bits, symbol;
};

struct stk_jpeg_band_table {
	_Alignas(64) struct stk_jpeg_band_entry first[1 << STK_JPEG_BAND_BITS];
	struct stk_jpeg_symbol symbol[1 << STK_JPEG_BAND_BITS];
	struct stk_jpeg_codes codes;
};

/* The description must be valid (codec/jpeg_header.h), a DC one without sizes above MAX_DC_SIZE. */
void stk__jpeg_ac_table_build(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h);
/* skip_length and skip_advance, which only windows need. */
void stk__jpeg_ac_table_build_skip(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h);
void stk__jpeg_dc_table_build(struct stk_jpeg_dc_table *t, const struct stk_jpeg_huffman *h);
/* Without `first` for refinements. */
void stk__jpeg_band_table_build(struct stk_jpeg_band_table *t, const struct stk_jpeg_huffman *h, bool refinement);

#endif
