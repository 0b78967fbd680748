/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of JPEG decoding in plain C and AVX2, which ARM processors run as NEON (kernel/common/avx2.h). Both give the same bits as libjpeg-turbo
 * (islow, triangle upsampling). They allocate nothing and do not parse files; codec/jpeg_fast.c and codec/jpeg_progressive.c call them. */
#ifndef STK_KERNEL_JPEG_KERNELS_H
#define STK_KERNEL_JPEG_KERNELS_H

#include "kernel/jpeg/jpeg_tables.h"

/* Coefficients are stored in pairs of blocks, in the layout of stk_jpeg_kernels.position_of. Each pair is followed by unused memory, from index
 * STK_JPEG_PAIR_NOWHERE on. The decoders need no branch for a value that does not belong to a block: they store it there. */
enum {
	STK_JPEG_PAIR = 144, /* distance between pairs, in int16_t */
	STK_JPEG_PAIR_NOWHERE = 128,
	STK_JPEG_MCU_BYTES = 2560, /* more than any MCU takes: 10 blocks with 64 symbols of 16 + 15 bits each */
	STK_JPEG_ROW_PAD = 64,     /* bytes of scratch memory that may be read and written before and after a row of samples or pixels */
};

/* Reads bits, the most significant first. `window` begins with the next bit, and has at least `count` valid bits; `next` points to the byte after them. */
struct stk_jpeg_bits {
	uint64_t window;
	uint64_t count;
	const uint8_t *next;
};

/* The tables, the prediction and the position for decoding one block of an MCU. */
struct stk_jpeg_block {
	const struct stk_jpeg_dc_table *dc;
	const struct stk_jpeg_ac_table *ac;
	int32_t *prediction; /* DC prediction of the block's component */
	uint32_t at;         /* index of the block's first coefficient in the coefficients of the MCU */
};

/* The blocks of a progressive image are stored in pairs too, row by row for each component, but without unused memory between pairs. */
enum { STK_JPEG_TIGHT_PAIR = 128 };

static inline size_t stk__jpeg_block_at(int i)
{
	return (size_t)(i >> 1) * STK_JPEG_TIGHT_PAIR + 8 * (size_t)(i & 1);
}

/* The parameters and state of an AC scan of a progressive image. */
struct stk_jpeg_band {
	const struct stk_jpeg_band_table *table;
	uint32_t start, end; /* positions in zigzag order, 1..63, both inclusive */
	int low;             /* index of the lowest bit of a coefficient that is known after the scan */
	uint32_t end_run;    /* number of following blocks for which the scan has no new coefficients */
};

struct stk_jpeg_unstuffed {
	size_t read, written;
	bool ended; /* true if a marker or the end of the source was reached; false if dst was full */
};

struct stk_jpeg_kernels {
	/* Maps the index of a coefficient in natural order to its position in a pair of blocks. The second block's coefficient is 8 positions later
	 * (jpeg_layout.h). */
	const uint8_t *position_of;

	/* Copies entropy-coded bytes without the 0 that follows each FF [B.1.1.5], until at least `capacity` bytes are written, or a marker or the end is
	 * reached. dst must have space for `capacity` + 32 bytes. */
	struct stk_jpeg_unstuffed (*unstuff)(const uint8_t *src, size_t size, uint8_t *dst, size_t capacity);

	/* Decodes n blocks into `coefficients`, in pairs of blocks. Coefficients that are 0 are not stored, so the memory must hold zeros before.
	 * STK_JPEG_MCU_BYTES bytes must be readable at bits->next. Returns a mask of the blocks that may have AC coefficients, or -1 if a code does not exist
	 * or a run exceeds the block. */
	int (*decode)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n, int16_t *coefficients);
	/* Skips n blocks: like decode, but only updates the DC predictions and stores no coefficients. Returns 0, or -1 for the same errors as decode. */
	int (*skip)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);

	/* Decode blocks from..to-1 of a row of a component in an AC scan of a progressive image: band_first in the first scan of these coefficients
	 * [G.1.2.2], band_refine in a refinement [G.1.2.3]. For each block, 256 bytes must be readable at bits->next. masks: for each block a mask of the
	 * AC coefficients that are not zero, bit 63 - k for position k; read and updated. coefficients: address of the coefficients of block 0, or NULL if
	 * only masks are needed. Return 0, or -1 if the data are damaged or have a form that no encoder writes. */
	int (*band_first)(struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
	int (*band_refine)(
		struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to);
	/* Decodes the DC differences of n blocks in the first DC scan, and adds each to its prediction. Returns 0, or -1 if a code does not exist. */
	int (*dc_first)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n);
	/* Reads n bits, at most 32. */
	uint32_t (*take_bits)(struct stk_jpeg_bits *bits, int n);

	/* Dequantises a pair of blocks, transforms it [A.3.3] like libjpeg's jidctint, and stores 8x8 samples of the first block at out[0] and of the second at
	 * out[1]; stride: distance between rows of samples. quant has the same layout as the pair. idct_flat is for pairs without AC coefficients. */
	void (*idct)(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
	void (*idct_flat)(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);
	/* Like idct, for blocks of 1x1, 2x2 and 4x4 samples (libjpeg's jidctred), for images that are decoded at a fraction of their size. The function for 1x1
	 * reads only the DC coefficients. */
	void (*idct_small[3])(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2]);

	/* Upsample n samples with triangle filters; the h2 functions write 2 n samples, and read index -1 and n of each row, to which the caller
	 * copies the first and last sample at the image's edges. All may read and write up to STK_JPEG_ROW_PAD bytes past the ends. bias of h1v2: 1 if `far`
	 * is the row above `near`, 2 if it is below. */
	void (*upsample_h2v1)(uint8_t *dst, const uint8_t *src, int n);
	void (*upsample_h2v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, int n);
	void (*upsample_h1v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, int bias, int n);

	/* Make n pixels of 3 bytes, and write no other bytes; may read up to STK_JPEG_ROW_PAD bytes past the end. bgr: reverses the order of colours. */
	void (*ycc_to_rgb)(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, bool bgr);
	void (*interleave)(uint8_t *dst, const uint8_t *a, const uint8_t *b, const uint8_t *c, int n);
};

void stk__jpeg_kernels_init(struct stk_jpeg_kernels *k, unsigned cpu); /* cpu: STK_CPU_... (base/cpu.h) */
void stk__jpeg_kernels_x86(struct stk_jpeg_kernels *k, unsigned cpu);  /* called by stk__jpeg_kernels_init */
void stk__jpeg_kernels_arm(struct stk_jpeg_kernels *k, unsigned cpu);  /* called by stk__jpeg_kernels_init */
void stk__jpeg_kernels_avx2(struct stk_jpeg_kernels *k);               /* sets all functions that use AVX2 */

/* Repeats each of n samples `factor` times in dst, as libjpeg does for factors without a triangle filter. */
void stk__jpeg_replicate(uint8_t *dst, const uint8_t *src, int factor, int n);

/* The functions of struct stk_jpeg_kernels: first those in plain C, then those with AVX2. */
struct stk_jpeg_unstuffed stk__jpeg_unstuff_c(const uint8_t *src, size_t size, uint8_t *dst, size_t capacity);
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

struct stk_jpeg_unstuffed stk__jpeg_unstuff_avx2(const uint8_t *src, size_t size, uint8_t *dst, size_t capacity);
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
