/* SPDX-License-Identifier: Apache-2.0
 *
 * Resampling filters: which source pixels make an output pixel, with which weights, along one axis.
 *
 * The arithmetic is float32 in a fixed order with exact operations only (no library functions), so that every host computes the same taps.
 * The rule is DALI's (kernels/imgproc/resample): output k has its centre at origin + (k + 1/2) * scale; the filter's curve is a
 * sampled one, interpolated linearly; weights are normalised before the border is looked at; what lies outside repeats the edge pixel.
 * With `drop`, taps outside are left out and the others normalised instead: Pillow's rule. */
#ifndef STK_KERNEL_FILTER_H
#define STK_KERNEL_FILTER_H

#include "stoker/tensor.h"

#define STK_FILTER_NO_GRAIN 99
#define STK_FILTER_FAR 0x1p31f
struct stk_filter_axis {
	const float *curve; /* NULL: nearest neighbour */
	int32_t curve_size;
	int32_t n;       /* taps per output, no more than there are pixels */
	int32_t support; /* taps before the border is looked at */
	int32_t stride;  /* so many taps outside the image are taken as one: 1, but for regions far larger than the image */
	int32_t in_size;
	float scale;   /* source pixels per output pixel; negative: flipped */
	float start;   /* the first tap of output 0, before rounding up; nearest: where the region begins */
	float density; /* samples of the curve per source pixel */
	bool drop;
	bool negative; /* some weights may be below 0 */
	bool lone;     /* at whole positions, where such an axis has all its outputs, a single tap has the weight 1 */
	int32_t grain; /* all weights are multiples of 2^-grain; STK_FILTER_NO_GRAIN when they are not known to be of any */
};

/* in_size source pixels; the region [begin, end) of them, fractional and within STK_FILTER_FAR of the origin, becomes out_size pixels. filter: the one for this axis. */
struct stk_filter_axis stk__filter_axis(
	enum stk_interp filter, bool antialias, bool drop, int32_t in_size, int32_t out_size, float begin, float end);

/* Fills weights[0 .. a->n - 1], which belong to the source pixels returned .. returned + n - 1, all of them inside the image. */
int32_t stk__filter_taps(const struct stk_filter_axis *a, int32_t output, float *weights);

/* The first tap alone. */
int32_t stk__filter_first(const struct stk_filter_axis *a, int32_t output);

/* Nearest neighbours of outputs 0 .. count - 1. DALI multiplies to get the columns' positions but adds up the rows', which differs where a
 * position falls on a pixel's edge; `summed` is for rows. */
void stk__filter_nearest(const struct stk_filter_axis *a, bool summed, int32_t count, int32_t *pixels);
int32_t stk__filter_summed(const struct stk_filter_axis *a, int32_t output);

/* Weights as integers; what rounding leaves of the sum goes to the largest. narrow: the sum is 2^16 (a lone weight of 1 becomes 2^16 -
 * 1, which the kernels' rounding makes good); wide: 2^STK_FILTER_WIDE_SHIFT. */
#define STK_FILTER_WIDE_SHIFT 14
void stk__filter_quantize_narrow(const float *weights, int32_t n, uint16_t *fixed);
void stk__filter_quantize_wide(const float *weights, int32_t n, int16_t *fixed);

extern const float stk__filter_triangle[3], stk__filter_gaussian[65], stk__filter_cubic[129], stk__filter_lanczos3[193];

#endif
