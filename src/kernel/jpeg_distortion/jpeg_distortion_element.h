/* SPDX-License-Identifier: Apache-2.0
 * Computes one sample, block or pixel of a phase of jpeg_distortion.h, in C and CUDA. */
#ifndef STK_KERNEL_JPEG_DISTORTION_ELEMENT_H
#define STK_KERNEL_JPEG_DISTORTION_ELEMENT_H

#include "kernel/jpeg_distortion/jpeg_distortion.h"

#include <stdbool.h>

STK_HD int64_t stk__jpeg_plane(const struct stk_jpeg_distortion *j, int chroma)
{
	return (int64_t)j->wide[chroma] * j->high[chroma];
}

STK_HD int64_t stk__jpeg_frame(const struct stk_jpeg_distortion *j)
{
	return stk__jpeg_plane(j, 0) + 2 * stk__jpeg_plane(j, 1);
}

STK_HD int64_t stk__jpeg_distortion_work(const struct stk_jpeg_distortion *j)
{
	return j->frames * stk__jpeg_frame(j);
}

/* Returns the size in bytes of the scratch memory that the CPU needs: for the planes of one frame, and a few rows. */
STK_HD int64_t stk__jpeg_distortion_scratch(const struct stk_jpeg_distortion *j)
{
	return stk__jpeg_frame(j) + 8 * (int64_t)j->wide[1] + 64;
}

/* Returns the number of values that a phase makes: samples, blocks or pixels. */
STK_HD int64_t stk__jpeg_distortion_values(const struct stk_jpeg_distortion *j, int phase)
{
	return phase == 0   ? stk__jpeg_distortion_work(j)
	       : phase == 1 ? stk__jpeg_distortion_work(j) / 64
			    : j->frames * j->width * j->height;
}

/* ---- samples ---- */

/* Returns Y, Cb or Cr (component 0, 1 or 2) of an RGB pixel. */
STK_HD int32_t stk__jpeg_of_rgb(const uint8_t *p, int component)
{
	switch (component) {
	case 0:
		return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16;
	case 1:
		return (-11059 * p[0] - 21709 * p[1] + 32768 * p[2] + (128 << 16) + 32767) >> 16;
	default:
		return (32768 * p[0] - 27439 * p[1] - 5329 * p[2] + (128 << 16) + 32767) >> 16;
	}
}

/* Returns sample (x, y) of a component's plane. As in libjpeg, the last column of pixels is repeated outside of the image before chroma is halved, and the
 * last row of samples afterwards. If the height is odd, the last row of pixels counts twice. */
STK_HD uint8_t stk__jpeg_sample(const struct stk_jpeg_distortion *j, const uint8_t *frame, int component, int32_t x, int32_t y)
{
	const uint8_t *row;
	int32_t last = j->width - 1;
	if (!component) {
		row = frame + 3 * (int64_t)(y < j->height ? y : j->height - 1) * j->width;
		return (uint8_t)stk__jpeg_of_rgb(row + 3 * (x < last ? x : last), 0);
	}
	int32_t half = (j->height - 1) / 2, top = 2 * (y < half ? y : half), bottom = top + 1 < j->height ? top + 1 : top;
	int32_t left = 2 * x < last ? 2 * x : last, right = 2 * x + 1 < last ? 2 * x + 1 : last;
	row = frame + 3 * (int64_t)top * j->width;
	int32_t sum = stk__jpeg_of_rgb(row + 3 * left, component) + stk__jpeg_of_rgb(row + 3 * right, component);
	row = frame + 3 * (int64_t)bottom * j->width;
	sum += stk__jpeg_of_rgb(row + 3 * left, component) + stk__jpeg_of_rgb(row + 3 * right, component);
	return (uint8_t)((sum + 1 + (x & 1)) >> 2);
}

/* ---- blocks ---- */

#define STK_DCT_WORD int32_t
#define STK_DCT(name) stk__jpeg_##name
#include "kernel/jpeg_distortion/jpeg_distortion_dct.h"

/* Rounds coefficient x, which has 3 bits of fraction, to the nearest multiple of q, halves away from 0, and returns it without bits of fraction. A division
 * in float32 is exact enough: no quotient of these integers is rounded up to the next integer. */
STK_HD int32_t stk__jpeg_quantise(int32_t x, int32_t q)
{
	int32_t size = (x < 0 ? -x : x) + 4 * q, multiple = (int32_t)((float)size / (float)(8 * q)) * q;
	return x < 0 ? -multiple : multiple;
}

STK_HD void stk__jpeg_distort_block(uint8_t *samples, int64_t stride, const uint8_t *quant)
{
	int32_t v[64];
	for (int y = 0; y < 8; y++)
		for (int x = 0; x < 8; x++)
			v[8 * y + x] = samples[y * stride + x] - 128;
	for (int y = 0; y < 8; y++)
		stk__jpeg_forward(v + 8 * y, 1, 2, 0, 11);
	for (int x = 0; x < 8; x++)
		stk__jpeg_forward(v + x, 8, 0, 2, 15);
	for (int k = 0; k < 64; k++)
		v[k] = stk__jpeg_quantise(v[k], quant[k]);
	for (int x = 0; x < 8; x++)
		stk__jpeg_inverse(v + x, 8, 11);
	for (int y = 0; y < 8; y++)
		stk__jpeg_inverse(v + 8 * y, 1, 18);
	for (int y = 0; y < 8; y++)
		for (int x = 0; x < 8; x++) {
			int32_t s = v[8 * y + x] + 128;
			samples[y * stride + x] = (uint8_t)(s < 0 ? 0 : s > 255 ? 255 : s);
		}
}

/* ---- pixels ---- */

/* Returns the value of a chroma plane at pixel (x, y): 3/4 of the nearest sample and 1/4 of the second nearest, along both axes. For images of up to 4
 * columns, returns the nearest sample. */
STK_HD int32_t stk__jpeg_chroma(const struct stk_jpeg_distortion *j, const uint8_t *plane, int32_t x, int32_t y)
{
	int32_t columns = (j->width + 1) / 2, rows = (j->height + 1) / 2, cx = x / 2, cy = y / 2;
	const uint8_t *near = plane + (int64_t)cy * j->wide[1];
	if (columns <= 2)
		return near[cx];
	int32_t next = y & 1 ? (cy + 1 < rows ? cy + 1 : cy) : (cy > 0 ? cy - 1 : cy), side = x & 1 ? cx + 1 : cx - 1;
	const uint8_t *far = plane + (int64_t)next * j->wide[1];
	int32_t own = 3 * near[cx] + far[cx], round = x & 1 ? 7 : 8;
	if (side < 0 || side >= columns)
		return (4 * own + round) >> 4;
	return (3 * own + 3 * near[side] + far[side] + round) >> 4;
}

STK_HD uint8_t stk__jpeg_clamp(int32_t v)
{
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

STK_HD void stk__jpeg_pixel(int32_t y, int32_t cb, int32_t cr, uint8_t *dst)
{
	cb -= 128;
	cr -= 128;
	dst[0] = stk__jpeg_clamp(y + ((91881 * cr + 32768) >> 16));
	dst[1] = stk__jpeg_clamp(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
	dst[2] = stk__jpeg_clamp(y + ((116130 * cb + 32768) >> 16));
}

/* ---- one value ---- */

STK_HD void stk__jpeg_distortion_one(
	const struct stk_jpeg_distortion *j, const uint8_t *src, uint8_t *dst, uint8_t *work, int phase, uint32_t i)
{
	int64_t planes = stk__jpeg_frame(j), luma = stk__jpeg_plane(j, 0), chroma = stk__jpeg_plane(j, 1);
	if (phase == 2) {
		uint32_t row = i / (uint32_t)j->width, frame = row / (uint32_t)j->height;
		int32_t x = (int32_t)(i - row * (uint32_t)j->width), y = (int32_t)(row - frame * (uint32_t)j->height);
		const uint8_t *base = work + frame * planes;
		stk__jpeg_pixel(base[(int64_t)y * j->wide[0] + x], stk__jpeg_chroma(j, base + luma, x, y),
			stk__jpeg_chroma(j, base + luma + chroma, x, y), dst + 3 * (int64_t)i);
		return;
	}
	int64_t unit = phase ? 64 : 1, frame = i / (uint32_t)(planes / unit), rest = i - frame * (planes / unit), first = luma / unit;
	int component = rest < first ? 0 : rest < first + chroma / unit ? 1 : 2, half = component > 0;
	rest -= component == 0 ? 0 : component == 1 ? first : first + chroma / unit;
	uint8_t *plane = work + frame * planes + (component == 0 ? 0 : component == 1 ? luma : luma + chroma);
	int32_t across = j->wide[half] / (phase ? 8 : 1), y = (int32_t)(rest / across), x = (int32_t)(rest - (int64_t)y * across);
	if (phase)
		stk__jpeg_distort_block(plane + 8 * ((int64_t)y * j->wide[half] + x), j->wide[half], j->quant[half]);
	else
		plane[rest] = stk__jpeg_sample(j, src + frame * j->height * j->width * 3, component, x, y);
}

#endif
