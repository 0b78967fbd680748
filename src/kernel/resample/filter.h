/* SPDX-License-Identifier: Apache-2.0
 *
 * Resampling filters along one axis: which source pixels contribute to an output pixel, and their weights (taps).
 *
 * The arithmetic is float32 in a fixed order and uses only exactly specified operations (no library functions), so that every host computes the same taps.
 * The rule is DALI's (kernels/imgproc/resample): output k has its centre at origin + (k + 1/2) * scale. The filter's curve is a table of samples, between
 * which values are interpolated linearly. Weights are normalised, then the border is applied: a tap outside of the image reads the edge pixel. With `drop`,
 * taps outside are dropped before normalisation, which is Pillow's rule. */
#ifndef STK_KERNEL_FILTER_H
#define STK_KERNEL_FILTER_H

#include "stoker/tensor.h"

#define STK_FILTER_NO_GRAIN 99
#define STK_FILTER_FAR 0x1p31f
struct stk_filter_axis {
	const float *curve; /* samples of the filter's curve; NULL: nearest neighbour */
	int32_t curve_size;
	int32_t n;       /* number of taps of an output, at most in_size */
	int32_t support; /* number of taps before the border is applied */
	/* number of consecutive taps outside of the image that are computed as one tap; above 1 only for regions much larger than the image */
	int32_t stride;
	int32_t in_size;
	float scale;   /* source pixels per output pixel; negative if the axis is flipped */
	float start;   /* position of the first tap of output 0, before rounding up; for nearest neighbour: start of the region */
	float density; /* number of samples of the curve per source pixel */
	bool drop;
	bool negative; /* some weights may be negative */
	bool lone;     /* true if all outputs are at integer positions, so that each output has a single tap with weight 1 */
	int32_t grain; /* all weights are multiples of 2^-grain; STK_FILTER_NO_GRAIN if no such grain is known */
};

/* Returns the filter of an axis with in_size source pixels, of which the region [begin, end) becomes out_size pixels. The region may be fractional, and
 * must be within STK_FILTER_FAR of the origin. antialias, drop: as in struct stk_resize. */
struct stk_filter_axis stk__filter_axis(
	enum stk_interp filter, bool antialias, bool drop, int32_t in_size, int32_t out_size, float begin, float end);

/* Computes weights[0 .. a->n - 1] of an output. Returns the first source pixel, to which the first weight belongs. All a->n pixels are inside of the image. */
int32_t stk__filter_taps(const struct stk_filter_axis *a, int32_t output, float *weights);

/* Returns the first source pixel of an output, without weights. */
int32_t stk__filter_first(const struct stk_filter_axis *a, int32_t output);

/* Sets pixels[k] to the nearest source pixel of output k, for k from 0 to count - 1. summed: adds up the steps between positions, instead of multiplying. (The
 * results differ if a position falls on a pixel's edge. DALI multiplies for columns, and adds up for rows.) */
void stk__filter_nearest(const struct stk_filter_axis *a, bool summed, int32_t count, int32_t *pixels);
/* Returns the nearest source pixel of one output, as stk__filter_nearest computes it with `summed`. */
int32_t stk__filter_summed(const struct stk_filter_axis *a, int32_t output);

/* Convert n weights to integers; the rounding error of their sum is added to the largest weight. narrow: the sum is 2^16 (but a single weight of 1 becomes 2^16
 * - 1; the kernels' rounding compensates for this); wide: the sum is 2^STK_FILTER_WIDE_SHIFT. */
#define STK_FILTER_WIDE_SHIFT 14
void stk__filter_quantize_narrow(const float *weights, int32_t n, uint16_t *fixed);
void stk__filter_quantize_wide(const float *weights, int32_t n, int16_t *fixed);

extern const float stk__filter_triangle[3], stk__filter_gaussian[65], stk__filter_cubic[129], stk__filter_lanczos3[193];

#endif
