/* SPDX-License-Identifier: Apache-2.0
 *
 * Huffman tables for decoding several symbols with one lookup (ITU-T T.81 annexes C and F).
 *
 * AC symbols of photographs are short: a code and its extra bits take 5.5 bits on average. So one lookup with an index of 11 bits yields a whole first
 * coefficient (including its value) and the code of a second one, if both fit into the index. The decoder extracts the second one's extra bits by
 * arithmetic. It needs no branch to use an entry: a coefficient that the entry lacks is stored outside of the block. */
#ifndef STK_KERNEL_JPEG_TABLES_H
#define STK_KERNEL_JPEG_TABLES_H

#include "kernel/jpeg/jpeg_plan.h"

enum {
	STK_JPEG_PAIR_BITS = 11, /* number of index bits in a lookup of one or two AC coefficients */
	STK_JPEG_SKIP_BITS = 12, /* number of index bits in a lookup that only skips coefficients */
	STK_JPEG_DC_BITS = 9,
	STK_JPEG_BAND_BITS = 10,   /* number of index bits in a lookup of one symbol of a progressive scan */
	STK_JPEG_MAX_DC_SIZE = 11, /* maximum number of bits of a DC difference; longer differences are refused */
	STK_JPEG_END = 128,        /* added to the position by an end-of-block symbol: a block ends properly at 64 or in END+1 .. END+63 */
};

/* The result of a lookup. If k is the next position in zigzag order, the first coefficient goes to position k + first_at, the second to k + advance - 1. */
struct stk_jpeg_ac_entry {
	uint8_t length;       /* number of bits used; 0: the code is longer than the index or does not exist (advance is 64 then) */
	uint8_t advance;      /* number of positions to advance, including END */
	uint8_t first_at;     /* 64 if there is no first coefficient: first_value is then stored outside of the block */
	uint8_t second_bits;  /* number of bits before the second coefficient's extra bits */
	uint8_t second_shift; /* 64 - number of extra bits of the second coefficient; 63 if it has none */
	int8_t first_value;
	int16_t second_bias; /* added if the first extra bit is 0: 1 - 2^number of extra bits [F.2.2.1, EXTEND] */
};

/* Decodes codes that are longer than a lookup's index [F.2.2.3]. limit[n] is the lowest 16-bit prefix that begins with no code of at
 * most n bits. */
struct stk_jpeg_codes {
	uint32_t limit[17];
	int32_t offset[17]; /* for codes of n bits: index in `values` minus the code */
	uint8_t values[256];
};

/* Lengths are in separate arrays: the next lookup depends only on them, and indexing an array of bytes needs no address arithmetic. */
struct stk_jpeg_ac_table {
	_Alignas(64) struct stk_jpeg_ac_entry pair[1 << STK_JPEG_PAIR_BITS];
	uint8_t pair_length[1 << STK_JPEG_PAIR_BITS];
	/* For skipping: number of bits and advance of the symbols that fit into SKIP_BITS bits. The first one's extra bits need not fit.
	 * The advance is 255 if not even the code of the first symbol fits. */
	uint8_t skip_length[1 << STK_JPEG_SKIP_BITS], skip_advance[1 << STK_JPEG_SKIP_BITS];
	uint8_t first_length[1 << STK_JPEG_PAIR_BITS]; /* number of bits of the first symbol of a pair, without the second */
	struct stk_jpeg_codes codes;
};

struct stk_jpeg_dc_entry {
	uint8_t code; /* number of bits of the code */
	uint8_t size; /* number of extra bits */
};

struct stk_jpeg_dc_table {
	/* number of bits of the code and its extra bits; 0: the code is longer than the index or does not exist */
	uint8_t length[1 << STK_JPEG_DC_BITS];
	struct stk_jpeg_dc_entry entry[1 << STK_JPEG_DC_BITS];
	struct stk_jpeg_codes codes;
};

/* The table for a band of AC coefficients in a progressive scan [G.1.2]. `first` has whole coefficients and is used in first scans; its advance is END for a
 * symbol that ends only this block, and 255 for symbols that are not in the table. `symbol` has only symbols; its bits are 0 if the code is longer than the
 * index or does not exist. */
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

/* Build decoding tables. h must be valid (codec/jpeg_header.h); for DC, no size may exceed STK_JPEG_MAX_DC_SIZE. */
void stk__jpeg_ac_table_build(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h);
/* Builds skip_length and skip_advance, which are only needed to decode windows. */
void stk__jpeg_ac_table_build_skip(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h);
void stk__jpeg_dc_table_build(struct stk_jpeg_dc_table *t, const struct stk_jpeg_huffman *h);
/* Builds the table of an AC scan of a progressive image. For a refinement, `first` is not filled and must not be used. */
void stk__jpeg_band_table_build(struct stk_jpeg_band_table *t, const struct stk_jpeg_huffman *h, bool refinement);

#endif
