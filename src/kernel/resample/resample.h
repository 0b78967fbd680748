/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of a separable resample over a block of STK_BLOCK_ROWS output rows: vertical first, then horizontal. Between them a
 * block lies turned on its side, one column after the other with its 16 rows side by side, so that both halves work on whole vectors
 * whatever the taps are.
 *
 * Three kinds of arithmetic, each with results that do not depend on the order of additions or that fix it, equal in C, SIMD and on a GPU:
 *   NARROW  uint8, weights >= 0, few taps: unsigned weights of sum 2^16; an intermediate is 8.8 fixed point. A product keeps its upper 16
 *           of 32 bits; `bias` gives back what that loses on average: half a unit a tap, or nothing where no product loses any. The
 *           result is rounded to the nearest integer, halves to even (as DALI's vector code does). 16 products an instruction.
 *   WIDE    uint8, any weights, few taps: int16 weights, int32 sums, intermediates with STK_WIDE_BITS fractional bits, saturated to int16.
 *   FLOAT   float32: ((0 + w0*x0) + w1*x1) + ..., each operation rounded.
 */
#ifndef STK_KERNEL_RESAMPLE_H
#define STK_KERNEL_RESAMPLE_H

#include <stddef.h>
#include <stdint.h>

#define STK_BLOCK_ROWS 16
#define STK_WIDE_BITS 6
/* Beyond so many taps the bits that a product or a weight loses would add up to a visible share of wrong roundings. */
#define STK_NARROW_TAPS 48
#define STK_WIDE_TAPS 32

/* Columns are made in groups: a vertical kernel may write so many columns past the last (times the channels). */
#define STK_COLUMN_GROUP 32

enum stk_resample_kind { STK_NARROW, STK_WIDE, STK_RESAMPLE_FLOAT };

/* Vertical half: block[(x * channels + c) * 16 + r] = sum over t of weights[r * n + t] * src(x, c, row[r] + t * tap).
 * Reads up to 64 bytes past the last pixel of a row. Weights: uint16 (NARROW), int16 (WIDE) or float. */
struct stk_vertical {
	const uint8_t *src;                                 /* the first column, in the row that the offsets count from */
	ptrdiff_t row[STK_BLOCK_ROWS], tap, pixel, channel; /* bytes */
	int32_t width, channels, n, shift;                  /* shift: WIDE's weights have the sum 1 << shift */
	uint16_t bias;
	const void *weights;
};

/* Horizontal half: dst[c * plane + r * row + x] = sum over t of weights[x * n + t] * block[((first[x] + t * step) * channels + c) * 16 +
 * r]. uint8 or float out. All 16 rows are written, and x up to the next multiple of 16, as far as first and weights must go. */
struct stk_horizontal {
	const void *block;
	const int32_t *first;
	const void *weights;
	int32_t origin; /* subtracted from first: the block's first column */
	int32_t step, n, shift, channels, count;
	uint16_t bias;
	void *dst;
	ptrdiff_t row, plane; /* elements */
};

struct stk_resample_kernels {
	void (*vertical[3])(const struct stk_vertical *v, void *block);       /* by stk_resample_kind; FLOAT takes float32 source pixels */
	void (*vertical_u8_float)(const struct stk_vertical *v, void *block); /* FLOAT from uint8 source pixels */
	void (*horizontal[3])(const struct stk_horizontal *h);
};

void stk__resample_kernels_init(struct stk_resample_kernels *k, unsigned cpu); /* cpu: base/cpu.h */
void stk__resample_kernels_x86(struct stk_resample_kernels *k, unsigned cpu);  /* for the above */
void stk__resample_kernels_arm(struct stk_resample_kernels *k, unsigned cpu);  /* for the above */
extern const struct stk_resample_kernels stk__resample_kernels_c, stk__resample_kernels_avx2;

#endif
