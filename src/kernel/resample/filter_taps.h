/* SPDX-License-Identifier: Apache-2.0
 * Computes the taps of one output on the CPU (filter.c) and on the GPU (pass_gpu.cu). Both add float32 numbers in the same order, and so get the same bits.
 * Weight k is stored at weights[k * stride]. On the GPU, the address of an axis's curve is a device address. */
#ifndef STK_KERNEL_FILTER_TAPS_H
#define STK_KERNEL_FILTER_TAPS_H

#include "base/hd.h"
#include "kernel/resample/filter.h"

#include <stddef.h>

/* Return the floor and ceiling of values that fit int32, without a library call. */
STK_HD int32_t stk__taps_floor(float x)
{
	int32_t i = (int32_t)x;
	return i - ((float)i > x);
}

STK_HD int32_t stk__taps_ceil(float x)
{
	int32_t i = (int32_t)x;
	return i + ((float)i < x);
}

/* Returns position x, limited so that it fits int32. All positions beyond the limit read the pixel at the edge. */
STK_HD float stk__taps_limit(float x)
{
	x = x > -0x1p30f ? x : -0x1p30f;
	return x < 0x1p30f ? x : 0x1p30f;
}

STK_HD int32_t stk__taps_clamp(int32_t x, int32_t low, int32_t high)
{
	return x < low ? low : x > high ? high : x;
}

STK_HD float stk__taps_curve(const struct stk_filter_axis *a, float x)
{
	if (!(x > -1.0f) || x >= (float)a->curve_size)
		return 0;
	int32_t i = stk__taps_floor(x);
	float left = i < 0 ? 0 : a->curve[i], right = i + 1 >= a->curve_size ? 0 : a->curve[i + 1];
	return left + (x - (float)i) * (right - left);
}

STK_HD int32_t stk__taps_first(const struct stk_filter_axis *a, int32_t output)
{
	if (!a->curve)
		return stk__taps_clamp(stk__taps_floor(stk__taps_limit(a->start + ((float)output + 0.5f) * a->scale)), 0, a->in_size - 1);
	return stk__taps_clamp(stk__taps_ceil(stk__taps_limit((float)output * a->scale + a->start)), 0, a->in_size - a->n);
}

/* Stores the weights of an output before normalisation, and returns their sum. All taps must be inside the image, and the curve must be a triangle (samples
 * 0, 1, 0). at: position of the first tap on the curve, in samples. */
STK_HD float stk__taps_triangle(const struct stk_filter_axis *a, float at, float *weights, ptrdiff_t stride)
{
	float sum = 0;
	for (int32_t k = 0; k < a->support; k++, at += a->density) {
		float w = at < 1 ? at : 2 - at;
		w = w > 0 ? w : 0;
		weights[k * stride] = w;
		sum += w;
	}
	return sum;
}

STK_HD float stk__taps_general(const struct stk_filter_axis *a, float at, int32_t ideal, int32_t first, float *weights, ptrdiff_t stride)
{
	float sum = 0;
	for (int32_t k = 0; k < a->n; k++)
		weights[k * stride] = 0;
	for (int32_t k = 0, step; k < a->support; k += step, at += a->density * (float)step) {
		int32_t pixel = ideal + k, inside = stk__taps_clamp(pixel, 0, a->in_size - 1);
		step = 1;
		if (pixel != inside) {
			int32_t rest = pixel < 0 ? -pixel : a->support - k; /* number of taps to the image, or to the filter's end */
			step = rest < a->stride ? rest : a->stride;
			if (a->drop)
				continue;
		}
		float w = stk__taps_curve(a, at + a->density * 0.5f * (float)(step - 1)) * (float)step;
		weights[(inside - first) * stride] += w;
		sum += w;
	}
	return sum;
}

STK_HD int32_t stk__taps_make(const struct stk_filter_axis *a, int32_t output, float *weights, ptrdiff_t stride)
{
	if (!a->curve) {
		weights[0] = 1;
		return stk__taps_first(a, output);
	}
	float x = stk__taps_limit((float)output * a->scale + a->start);
	int32_t ideal = stk__taps_ceil(x), first = stk__taps_clamp(ideal, 0, a->in_size - a->n);
	float at = ((float)ideal - x) * a->density;
	bool simple = a->curve_size == 3 && first == ideal && a->n == a->support;
	float sum = simple ? stk__taps_triangle(a, at, weights, stride) : stk__taps_general(a, at, ideal, first, weights, stride);
	if (sum != 0)
		for (int32_t k = 0; k < a->n; k++)
			weights[k * stride] /= sum;
	return first;
}

#endif
