/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/filter_taps.h"

#include <assert.h>

/* Returns the grain of an axis (struct stk_filter_axis), or STK_FILTER_NO_GRAIN. Scales such as 1, 2, 1/2 and 3/4 have weights that fixed point represents
 * exactly. Their results are often halfway between two integers, so a bias for lost bits would round them wrongly. */
static int32_t find_grain(const struct stk_filter_axis *a, float shrink)
{
	const float most = 0x1p22f; /* keeps scale and start, times a unit of up to 2^8, within int32 */
	if (!(a->scale < most && a->scale > -most && a->start < most && a->start > -most))
		return STK_FILTER_NO_GRAIN;
	if (a->curve_size != 3 || (shrink != 1 && shrink != 2 && shrink != 4))
		return STK_FILTER_NO_GRAIN;
	int32_t grain = 0;
	for (float unit = 1; grain <= 8; grain++, unit *= 2) {
		float scale = a->scale * unit, start = a->start * unit;
		if ((float)stk__taps_floor(scale) == scale && (float)stk__taps_floor(start) == start)
			return grain + (shrink == 1 ? 0 : shrink == 2 ? 2 : 4);
	}
	return STK_FILTER_NO_GRAIN;
}

struct stk_filter_axis stk__filter_axis(
	enum stk_interp filter, bool antialias, bool drop, int32_t in_size, int32_t out_size, float begin, float end)
{
	assert(in_size > 0 && out_size > 0);
	struct stk_filter_axis a = {.in_size = in_size, .drop = drop, .scale = (end - begin) / (float)out_size};
	float extent = begin < end ? end - begin : begin - end;
	float shrink = antialias && extent > (float)out_size ? extent / (float)out_size : 1.0f;
	/* Limits the filter's width, since taps are counted in int32. A filter of this width exceeds any image and gives half of its weight to each of the
	 * image's edges, as a wider one would. */
	shrink = shrink < 0x1p26f ? shrink : 0x1p26f;
	float support = 2 * shrink;
	switch (filter) {
	case STK_INTERP_NN:
		a.n = a.support = 1;
		a.lone = true;
		a.start = begin;
		return a;
	case STK_INTERP_LINEAR:
	case STK_INTERP_TRIANGULAR:
		a.curve = stk__filter_triangle, a.curve_size = 3;
		break;
	case STK_INTERP_GAUSSIAN:
		a.curve = stk__filter_gaussian, a.curve_size = 65;
		/* The support is 2 * shrink, computed as sqrt(32) * sigma from a rounded sigma = shrink / sqrt(8): if it is close to an integer, the
		 * rounding decides whether there is one more tap. */
		support = 5.656854249f * (float)((double)(shrink * 0.5f) / 1.4142135623730951);
		break;
	case STK_INTERP_CUBIC:
		a.curve = stk__filter_cubic, a.curve_size = 129;
		support = 4 * shrink, a.negative = true;
		break;
	case STK_INTERP_LANCZOS3:
		a.curve = stk__filter_lanczos3, a.curve_size = 193;
		support = 6 * shrink, a.negative = true;
		break;
	}
	float length = (float)(a.curve_size - 1);
	a.density = length / support;
	a.support = stk__taps_ceil(length / a.density);
	a.n = a.support < in_size ? a.support : in_size;
	int64_t most = 8 * (int64_t)in_size + 64; /* no region inside of the image needs so many taps */
	a.stride = a.support > most ? (int32_t)((a.support + most - 1) / most) : 1;
	a.start = begin + (0.5f * a.scale - 0.5f - 0.5f * length / a.density);
	a.grain = find_grain(&a, shrink);
	a.lone = shrink == 1 && a.grain == 0;
	return a;
}

int32_t stk__filter_first(const struct stk_filter_axis *a, int32_t output)
{
	return stk__taps_first(a, output);
}

void stk__filter_nearest(const struct stk_filter_axis *a, bool summed, int32_t count, int32_t *pixels)
{
	float at = a->start + 0.5f * a->scale;
	for (int32_t k = 0; k < count; k++, at += a->scale)
		pixels[k] = summed ? stk__taps_clamp(stk__taps_floor(stk__taps_limit(at)), 0, a->in_size - 1) : stk__filter_first(a, k);
}

int32_t stk__filter_summed(const struct stk_filter_axis *a, int32_t output)
{
	float at = a->start + 0.5f * a->scale;
	for (int32_t k = 0; k < output; k++)
		at += a->scale;
	return stk__taps_clamp(stk__taps_floor(stk__taps_limit(at)), 0, a->in_size - 1);
}

int32_t stk__filter_taps(const struct stk_filter_axis *a, int32_t output, float *weights)
{
	return stk__taps_make(a, output, weights, 1);
}

void stk__filter_quantize_narrow(const float *weights, int32_t n, uint16_t *fixed)
{
	int32_t rest = 65536, largest = 0, most = 0;
	for (int32_t k = 0; k < n; k++) {
		int32_t w = (int32_t)(weights[k] * 65536.0f + 0.5f);
		fixed[k] = (uint16_t)(w < 65535 ? w : 65535);
		rest -= w;
		largest = w > most ? k : largest;
		most = w > most ? w : most;
	}
	fixed[largest] = (uint16_t)stk__taps_clamp(most + rest, 0, 65535);
}

void stk__filter_quantize_wide(const float *weights, int32_t n, int16_t *fixed)
{
	int32_t rest = 1 << STK_FILTER_WIDE_SHIFT, largest = 0;
	for (int32_t k = 0; k < n; k++) {
		fixed[k] = (int16_t)stk__taps_floor(weights[k] * (float)(1 << STK_FILTER_WIDE_SHIFT) + 0.5f);
		rest -= fixed[k];
		if (fixed[k] > fixed[largest])
			largest = k;
	}
	fixed[largest] = (int16_t)(fixed[largest] + rest);
}
