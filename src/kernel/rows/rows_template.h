/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over rows that compilers vectorise well. rows.c and rows_avx2.c include this file and compile it for their processors. Both give the same bits, since
 * the order of operations is fixed and compiler flags forbid fused multiply-adds. */
#include "kernel/convert/half.h"
#include "kernel/rows/rows.h"

#include <string.h>

static void widen_u8(float *restrict dst, const uint8_t *restrict src, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		dst[i] = (float)src[i];
}

static void affine(float *restrict row, int32_t n, float scale, float bias)
{
	for (int32_t i = 0; i < n; i++)
		row[i] = row[i] * scale + bias;
}

static void matrix(float *restrict row0, float *restrict row1, float *restrict row2, int32_t n, const float m[9], const float b[3])
{
	for (int32_t i = 0; i < n; i++) {
		float x0 = row0[i], x1 = row1[i], x2 = row2[i];
		row0[i] = m[0] * x0 + m[1] * x1 + m[2] * x2 + b[0];
		row1[i] = m[3] * x0 + m[4] * x1 + m[5] * x2 + b[1];
		row2[i] = m[6] * x0 + m[7] * x1 + m[8] * x2 + b[2];
	}
}

static void gray(float *restrict row0, const float *restrict row1, const float *restrict row2, int32_t n, const float w[3])
{
	for (int32_t i = 0; i < n; i++)
		row0[i] = w[0] * row0[i] + w[1] * row1[i] + w[2] * row2[i];
}

/* Functions that each including file defines in its own way. */
static void round_integer(float *restrict row, int32_t n, float low, float high);
static void to_half(uint16_t *restrict dst, const float *restrict src, int32_t n);
static void from_half(float *restrict dst, const uint16_t *restrict src, int32_t n);
static void to_bfloat(uint16_t *restrict dst, const float *restrict src, int32_t n);

/* Returns x rounded to nearest, halves away from zero, and saturated; NaN counts as 0. */
static inline float round_one(float x, float low, float high)
{
	x = x == x ? x : 0;
	x = x > low ? x : low;
	x = x < high ? x : high;
	float whole = (float)(int32_t)x, part = x - whole;
	return part >= 0.5f ? whole + 1 : part <= -0.5f ? whole - 1 : whole;
}

/* Rounds n values to int32; NaN becomes 0. Values beyond 2^23 are integers already. Values are limited to -2^31 .. 2^31, where 2^31 stands for the largest
 * int32, which float32 cannot represent. */
static void round_int32(float *row, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		float x = row[i] == row[i] ? row[i] : 0;
		x = x > -0x1p31f ? x : -0x1p31f;
		x = x < 0x1p31f ? x : 0x1p31f;
		row[i] = x > -8388608.0f && x < 8388608.0f ? round_one(x, -0x1p23f, 0x1p23f) : x;
	}
}

static void round_half(float *row, int32_t n)
{
	uint16_t half[64];
	for (int32_t i = 0; i < n; i += 64) {
		int32_t count = n - i < 64 ? n - i : 64;
		to_half(half, row + i, count);
		from_half(row + i, half, count);
	}
}

static void round_bfloat(float *row, int32_t n)
{
	uint16_t half[64];
	for (int32_t i = 0; i < n; i += 64) {
		int32_t count = n - i < 64 ? n - i : 64;
		to_bfloat(half, row + i, count);
		for (int32_t k = 0; k < count; k++)
			row[i + k] = stk__bfloat_to_float(half[k]);
	}
}

static void round_row(float *row, int32_t n, enum stk_dtype dtype)
{
	switch (dtype) {
	case STK_UINT8:
		round_integer(row, n, 0, 255);
		break;
	case STK_INT8:
		round_integer(row, n, -128, 127);
		break;
	case STK_UINT16:
		round_integer(row, n, 0, 65535);
		break;
	case STK_INT16:
		round_integer(row, n, -32768, 32767);
		break;
	case STK_INT32:
		round_int32(row, n);
		break;
	case STK_BOOL:
		for (int32_t i = 0; i < n; i++)
			row[i] = row[i] >= 0.5f || row[i] <= -0.5f;
		break;
	case STK_FLOAT16:
		round_half(row, n);
		break;
	case STK_BFLOAT16:
		round_bfloat(row, n);
		break;
	default: /* float32 */
		break;
	}
}

#define STORE_AS(type)                                                                                                                     \
	do {                                                                                                                               \
		type *restrict out = dst;                                                                                                  \
		for (int32_t i = 0; i < n; i++)                                                                                            \
			out[i] = (type)(int32_t)row[i];                                                                                    \
	} while (0)

static void store_row(void *dst, const float *restrict row, int32_t n, enum stk_dtype dtype)
{
	switch (dtype) {
	case STK_UINT8:
	case STK_BOOL:
		STORE_AS(uint8_t);
		break;
	case STK_INT8:
		STORE_AS(int8_t);
		break;
	case STK_UINT16:
		STORE_AS(uint16_t);
		break;
	case STK_INT16:
		STORE_AS(int16_t);
		break;
	case STK_INT32:
		for (int32_t i = 0; i < n; i++)
			((int32_t *)dst)[i] = row[i] < 0x1p31f ? (int32_t)row[i] : INT32_MAX;
		break;
	case STK_FLOAT16:
		to_half(dst, row, n);
		break;
	case STK_BFLOAT16:
		to_bfloat(dst, row, n);
		break;
	default:
		memcpy(dst, row, (size_t)n * sizeof *row);
	}
}

static void interleave_any(void *dst, const void *src, ptrdiff_t plane, int32_t n, int32_t channels, size_t element)
{
	for (int32_t c = 0; c < channels; c++) {
		const uint8_t *restrict from = (const uint8_t *)src + (size_t)c * (size_t)plane * element;
		uint8_t *restrict to = (uint8_t *)dst + (size_t)c * element;
		size_t pixel = (size_t)channels * element;
		switch (element) {
		case 1:
			for (int32_t x = 0; x < n; x++)
				to[(size_t)x * pixel] = from[x];
			break;
		case 2:
			for (int32_t x = 0; x < n; x++)
				memcpy(to + (size_t)x * pixel, from + (size_t)x * 2, 2);
			break;
		default:
			for (int32_t x = 0; x < n; x++)
				memcpy(to + (size_t)x * pixel, from + (size_t)x * 4, 4);
		}
	}
}

static void load_u8_any(uint8_t *dst, ptrdiff_t row, ptrdiff_t plane, const struct stk_image *src, bool mirror)
{
	ptrdiff_t step = mirror ? -src->pixel : src->pixel, skip = mirror ? (src->width - 1) * src->pixel : 0;
	for (int32_t r = 0; r < src->height; r++)
		for (int32_t c = 0; c < src->channels; c++) {
			const uint8_t *from = (const uint8_t *)src->data + r * src->row + c * src->channel + skip;
			uint8_t *restrict to = dst + c * plane + r * row;
			for (int32_t x = 0; x < src->width; x++, from += step)
				to[x] = *from;
		}
}
