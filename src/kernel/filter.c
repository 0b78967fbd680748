/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/filter.h"

#include <assert.h>

/* floor and ceil of values that fit int32, without a library call. */
static int32_t floor_int(float x)
{
	int32_t i = (int32_t)x;
	return i - ((float)i > x);
}

static int32_t ceil_int(float x)
{
	int32_t i = (int32_t)x;
	return i + ((float)i < x);
}

static int32_t clamp(int32_t x, int32_t low, int32_t high)
{
	return x < low ? low : x > high ? high : x;
}

/* Scales of 1, 2, 1/2, 3/4 and the like have weights that fixed point holds exactly, and results that often lie halfway between two integers. */
static int32_t find_grain(const struct stk_filter_axis *a, float shrink)
{
	if (a->curve_size != 3 || (shrink != 1 && shrink != 2 && shrink != 4))
		return STK_FILTER_NO_GRAIN;
	int32_t grain = 0;
	for (float unit = 1; grain <= 8; grain++, unit *= 2) {
		float scale = a->scale * unit, start = a->start * unit;
		if ((float)floor_int(scale) == scale && (float)floor_int(start) == start)
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
		/* Through sigma = shrink / sqrt(8), whose rounding decides at whole supports whether there is one tap more. */
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
	a.support = ceil_int(length / a.density);
	a.n = a.support < in_size ? a.support : in_size;
	a.start = begin + (0.5f * a.scale - 0.5f - 0.5f * length / a.density);
	a.grain = find_grain(&a, shrink);
	a.lone = shrink == 1 && a.grain == 0;
	return a;
}

static float curve_at(const struct stk_filter_axis *a, float x)
{
	if (!(x > -1.0f) || x >= (float)a->curve_size)
		return 0;
	int32_t i = floor_int(x);
	float left = i < 0 ? 0 : a->curve[i], right = i + 1 >= a->curve_size ? 0 : a->curve[i + 1];
	return left + (x - (float)i) * (right - left);
}

int32_t stk__filter_first(const struct stk_filter_axis *a, int32_t output)
{
	if (!a->curve)
		return clamp(floor_int(a->start + ((float)output + 0.5f) * a->scale), 0, a->in_size - 1);
	return clamp(ceil_int((float)output * a->scale + a->start), 0, a->in_size - a->n);
}

void stk__filter_nearest(const struct stk_filter_axis *a, bool summed, int32_t count, int32_t *pixels)
{
	float at = a->start + 0.5f * a->scale;
	for (int32_t k = 0; k < count; k++, at += a->scale)
		pixels[k] = summed ? clamp(floor_int(at), 0, a->in_size - 1) : stk__filter_first(a, k);
}

int32_t stk__filter_summed(const struct stk_filter_axis *a, int32_t output)
{
	float at = a->start + 0.5f * a->scale;
	for (int32_t k = 0; k < output; k++)
		at += a->scale;
	return clamp(floor_int(at), 0, a->in_size - 1);
}

/* The usual case, and most of the cost of making tables: all taps inside, and the curve a triangle, whose samples are 0, 1, 0. */
static float triangle_taps(const struct stk_filter_axis *a, float at, float *weights)
{
	float sum = 0;
	for (int32_t k = 0; k < a->support; k++, at += a->density) {
		float w = at < 1 ? at : 2 - at;
		weights[k] = w > 0 ? w : 0;
		sum += weights[k];
	}
	return sum;
}

static float general_taps(const struct stk_filter_axis *a, float at, int32_t ideal, int32_t first, float *weights)
{
	float sum = 0;
	for (int32_t k = 0; k < a->n; k++)
		weights[k] = 0;
	for (int32_t k = 0; k < a->support; k++, at += a->density) {
		int32_t pixel = ideal + k, inside = clamp(pixel, 0, a->in_size - 1);
		if (a->drop && pixel != inside)
			continue;
		float w = curve_at(a, at);
		weights[inside - first] += w;
		sum += w;
	}
	return sum;
}

int32_t stk__filter_taps(const struct stk_filter_axis *a, int32_t output, float *weights)
{
	if (!a->curve) {
		weights[0] = 1;
		return stk__filter_first(a, output);
	}
	float x = (float)output * a->scale + a->start;
	int32_t ideal = ceil_int(x), first = clamp(ideal, 0, a->in_size - a->n);
	float at = ((float)ideal - x) * a->density;
	bool simple = a->curve_size == 3 && first == ideal && a->n == a->support;
	float sum = simple ? triangle_taps(a, at, weights) : general_taps(a, at, ideal, first, weights);
	if (sum != 0)
		for (int32_t k = 0; k < a->n; k++)
			weights[k] /= sum;
	return first;
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
	fixed[largest] = (uint16_t)clamp(most + rest, 0, 65535);
}

void stk__filter_quantize_wide(const float *weights, int32_t n, int16_t *fixed)
{
	int32_t rest = 1 << STK_FILTER_WIDE_SHIFT, largest = 0;
	for (int32_t k = 0; k < n; k++) {
		fixed[k] = (int16_t)floor_int(weights[k] * (float)(1 << STK_FILTER_WIDE_SHIFT) + 0.5f);
		rest -= fixed[k];
		if (fixed[k] > fixed[largest])
			largest = k;
	}
	fixed[largest] = (int16_t)(fixed[largest] + rest);
}
