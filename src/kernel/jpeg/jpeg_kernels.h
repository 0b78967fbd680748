/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of JPEG decoding, plain C and AVX2, equal bit for bit to each other and to libjpeg-turbo's (islow, triangle upsampling).
 * They allocate nothing and know no file: codec/jpeg_fast.c and codec/jpeg_progressive.c drive them. */
#ifndef STK_KERNEL_JPEG_KERNELS_H
#define STK_KERNEL_JPEG_KERNELS_H

#include "kernel/jpeg/jpeg_tables.h"

/* Coefficients lie in pairs of blocks, whose layout stk_jpeg_kernels.place gives. After the pair is a slot that takes stores to nowhere. */
enum {
	STK_JPEG_PAIR = 144, /* int16_t from one pair to the next */
	STK_JPEG_PAIR_NOWHERE = 128,
	STK_JPEG_MCU_BYTES = 2560, /* more than any MCU takes: 10 blocks of 64 symbols of 16 + 15 bits */
	STK_JPEG_ROW_PAD = 64,     /* bytes that may be read and written beyond both ends of a row of samples or pixels in scratch */
};

/* Reads bits, most significant first. `window` begins with the next bit and holds at least `count` valid ones; `next` is the byte after those. */
struct stk_jpeg_bits {
	uint64_t window;
	uint64_t count;
	const uint8_t *next;
};

/* How one block of an MCU is decoded. */
struct stk_jpeg_block {
	const struct stk_jpeg_dc_table *dc;
	const struct stk_jpeg_ac_table *ac;
	int32_t *prediction; /* of its component's DC */
	uint32_t at;         /* where it begins in the MCU's coefficients */
};

/* A progressive image's blocks: those of a row of a component two by two, one pair after the other (without slots). */
enum { STK_JPEG_TIGHT_PAIR = 128 };

static inline size_t stk__jpeg_block_at(int i)
{
	return (size_t)(i >> 1) * STK_JPEG_TIGHT_PAIR + 8 * (size_t)(i & 1);
}

/* An AC scan of a progressive image. */
struct stk_jpeg_band {
	const struct stk_jpeg_band_table *table;
	uint32_t start, end; /* positions in zigzag order, 1..63, both included */
	int low;             /* the lowest bit of the coefficients that the scan gives */
	uint32_t end_run;    /* following blocks for which it has nothing new */
};

struct stk_jpeg_unstuffed {
	size_t read, written;
	bool ended; /* at a marker, or at the end of the source */
};

struct stk_jpeg_kernels {
	/* Where a block's coefficients lie in a pair, in natural order; those of the second block 8 further (jpeg_layout.h). */
	const uint8_t *place;

	/* Copies entropy-coded bytes without the 0 that follows each FF [B.1.1.5], until room bytes are written or a marker or the end is met.
	 * Writes up to 32 bytes past room. */
	struct stk_jpeg_unstuffed (*unstuff)(const uint8_t *src, size_t size, uint8_t *dst, size_t room);

	/* Decodes n blocks into coefficients (in pairs; stores only what is not zero). Needs MCU_BYTES readable at bits->next.
	 * Gives a mask of the blocks that have AC coefficients; -1 on a code that does not exist or a run past the block's end. */
	int (*decode)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n, int16_t *coefficients);
	/* The same without storing coefficients: follows the DC prediction only. 0 or -1. */
	int (*skip)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);

	/* Blocks from..to-1 of a row of a component in an AC scan of a progressive image, its first [G.1.2.2] or a refinement [G.1.2.3]. masks: for each
	 * block the AC coefficients that are not zero, bit 63 - k for position k, read and written; coefficients: of block 0 (block_at), or NULL: masks suffice.
	 * Needs 256 bytes a block. 0, or -1: damage, or what no encoder writes. */
	int (*band_first)(struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
	int (*band_refine)(
		struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
	/* Decodes the DC differences of n blocks in a first DC scan and adds each to its prediction. 0 or -1. */
	int (*dc_first)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);
	/* Reads n bits, at most 32. */
	uint32_t (*take_bits)(struct stk_jpeg_bits *bits, int n);

	/* Dequantises a pair (quant in the same layout, without slot), transforms it [A.3.3] as libjpeg's jidctint does, and stores 8x8 samples of the
	 * first block at out[0], of the second at out[1]. idct_flat: for pairs whose AC coefficients are all zero. */
	void (*idct)(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
	void (*idct_flat)(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
	/* The same to 1x1, 2x2 and 4x4 samples, as libjpeg's jidctred does: blocks of images decoded at a fraction of their size. 1x1 reads the DC
	 * coefficients alone. */
	void (*idct_small[3])(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);

	/* Triangle upsampling of n samples: 2 n out for h2. src[-1] and src[n] are read (the image's edge is repeated there by the caller). Reads and
	 * writes up to ROW_PAD beyond. bias of h1v2: 1 where far is above near, 2 where below. */
	void (*upsample_h2v1)(uint8_t *dst, const uint8_t *src, int n);
	void (*upsample_h2v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, int n);
	void (*upsample_h1v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, int bias, int n);

	/* n pixels of 3 bytes, not a byte more; reads up to ROW_PAD beyond. bgr: the other order. */
	void (*ycc_to_rgb)(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, bool bgr);
	void (*interleave)(uint8_t *dst, const uint8_t *a, const uint8_t *b, const uint8_t *c, int n);
};

void stk__jpeg_kernels_init(struct stk_jpeg_kernels *k, unsigned cpu); /* cpu: base/cpu.h */
void stk__jpeg_kernels_x86(struct stk_jpeg_kernels *k, unsigned cpu);  /* for the above */
void stk__jpeg_kernels_arm(struct stk_jpeg_kernels *k, unsigned cpu);  /* for the above */
void stk__jpeg_kernels_avx2(struct stk_jpeg_kernels *k);               /* those of AVX2, all at once */

/* Replication by an integer factor, libjpeg's choice where it has no triangle filter: n samples, n * factor out. */
void stk__jpeg_replicate(uint8_t *dst, const uint8_t *src, int factor, int n);

/* What fills the tables. */
struct stk_jpeg_unstuffed stk__jpeg_unstuff_c(const uint8_t *src, size_t size, uint8_t *dst, size_t room);
int stk__jpeg_decode_c(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n, int16_t *coefficients);
int stk__jpeg_skip_c(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);
int stk__jpeg_band_first_c(
	struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
int stk__jpeg_band_refine_c(
	struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
int stk__jpeg_dc_first_c(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);
uint32_t stk__jpeg_take_bits_c(struct stk_jpeg_bits *bits, int n);
void stk__jpeg_idct_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_idct_flat_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_idct_4_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_idct_2_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_idct_1_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_upsample_h2v1_c(uint8_t *dst, const uint8_t *src, int n);
void stk__jpeg_upsample_h2v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far, int n);
void stk__jpeg_upsample_h1v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far, int bias, int n);
void stk__jpeg_ycc_to_rgb_c(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, bool bgr);
void stk__jpeg_interleave_c(uint8_t *dst, const uint8_t *a, const uint8_t *b, const uint8_t *c, int n);

struct stk_jpeg_unstuffed stk__jpeg_unstuff_avx2(const uint8_t *src, size_t size, uint8_t *dst, size_t room);
int stk__jpeg_decode_avx2(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n, int16_t *coefficients);
int stk__jpeg_skip_avx2(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);
int stk__jpeg_band_first_avx2(
	struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
int stk__jpeg_band_refine_avx2(
	struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
int stk__jpeg_dc_first_avx2(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);
uint32_t stk__jpeg_take_bits_avx2(struct stk_jpeg_bits *bits, int n);
void stk__jpeg_idct_avx2(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_idct_2_avx2(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_idct_4_avx2(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
void stk__jpeg_upsample_h2v1_avx2(uint8_t *dst, const uint8_t *src, int n);
void stk__jpeg_upsample_h2v2_avx2(uint8_t *dst, const uint8_t *near, const uint8_t *far, int n);
void stk__jpeg_upsample_h1v2_avx2(uint8_t *dst, const uint8_t *near, const uint8_t *far, int bias, int n);
void stk__jpeg_ycc_to_rgb_avx2(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, bool bgr);
void stk__jpeg_interleave_avx2(uint8_t *dst, const uint8_t *a, const uint8_t *b, const uint8_t *c, int n);

#endif
