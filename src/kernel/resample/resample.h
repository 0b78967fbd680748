/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of a separable resample over a block of STK_BLOCK_ROWS output rows: first vertical, then horizontal. The block between them is stored
 * column by column, and the 16 rows of a column are adjacent. So both halves work on whole vectors, whatever the taps are.
 *
 * There are three kinds of arithmetic. Their results do not depend on the order of additions, or the order is fixed, so C, SIMD and GPU give the same bits:
 *   NARROW  uint8, weights >= 0, few taps. Weights are unsigned, with sum 2^16; intermediate values are 8.8 fixed point. Only the upper 16 of a product's 32
 * bits are kept. `bias` compensates for the average loss: half a unit per tap, or nothing if no product loses bits. The result is rounded to the nearest
 * integer, halves to even (like DALI's vector code). An AVX2 instruction computes 16 products.
 *   WIDE    uint8, any weights, few taps. Weights are int16, sums int32; intermediate values have STK_WIDE_BITS bits of fraction and saturate to int16.
 *   FLOAT   float32: ((0 + w0*x0) + w1*x1) + ..., each operation rounded. */
#ifndef STK_KERNEL_RESAMPLE_H
#define STK_KERNEL_RESAMPLE_H

#include <stddef.h>
#include <stdint.h>

#define STK_BLOCK_ROWS 16
#define STK_WIDE_BITS 6
/* Maximum numbers of taps. With more taps, the bits that products or weights lose would round too many results wrongly. */
#define STK_NARROW_TAPS 48
#define STK_WIDE_TAPS 32

/* Columns are made in groups: a vertical kernel may write up to this number of columns (times the number of channels) past the last column. */
#define STK_COLUMN_GROUP 32

enum stk_resample_kind { STK_NARROW, STK_WIDE, STK_RESAMPLE_FLOAT };

/* The parameters of the vertical half: block[(x * channels + c) * 16 + r] = sum over t of weights[r * n + t] * src(x, c, row[r] + t * tap). Reads up to 64
 * bytes past the last pixel of a row. weights: uint16 (NARROW), int16 (WIDE) or float. */
struct stk_vertical {
	const uint8_t *src;                                 /* the first column, in the row to which row[] is relative */
	ptrdiff_t row[STK_BLOCK_ROWS], tap, pixel, channel; /* distances in bytes */
	int32_t width, channels, n, shift;                  /* shift: the sum of WIDE's weights is 1 << shift */
	uint16_t bias;
	const void *weights;
};

/* The parameters of the horizontal half: dst[c * plane + r * row + x] = sum over t of weights[x * n + t] * block[((first[x] - origin + t * step) * channels +
 * c) * 16 + r]. n is the number of taps, count the number of output columns. The output is uint8 or float. All 16 rows are written, and columns up to the next
 * multiple of 16; `first` and `weights` must have entries for these columns too. */
struct stk_horizontal {
	const void *block;
	const int32_t *first;
	const void *weights;
	int32_t origin; /* number in the source of the block's first column */
	int32_t step, n, shift, channels, count;
	uint16_t bias;
	void *dst;
	ptrdiff_t row, plane; /* distances in elements */
};

struct stk_resample_kernels {
	/* indexed by stk_resample_kind; FLOAT reads float32 source pixels */
	void (*vertical[3])(const struct stk_vertical *v, void *block);
	void (*vertical_u8_float)(const struct stk_vertical *v, void *block); /* FLOAT for uint8 source pixels */
	void (*horizontal[3])(const struct stk_horizontal *h);
};

void stk__resample_kernels_init(struct stk_resample_kernels *k, unsigned cpu); /* cpu: STK_CPU_... (base/cpu.h) */
void stk__resample_kernels_x86(struct stk_resample_kernels *k, unsigned cpu);  /* called by stk__resample_kernels_init */
void stk__resample_kernels_arm(struct stk_resample_kernels *k, unsigned cpu);  /* called by stk__resample_kernels_init */
extern const struct stk_resample_kernels stk__resample_kernels_c, stk__resample_kernels_avx2;

#endif
