/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/convert.h"

#include "kernel/convert/ycbcr.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 64 };

/* A chunk of pixels in the source's scale. c[0..2] are red, green and blue, or c[0] is gray; c[3] is alpha. For CMYK, c has C, M, Y and K. */
struct chunk {
	int32_t c[4][CHUNK];
};

static const int channels_of[] = {[STK_PIXELS_GRAY] = 1,
	[STK_PIXELS_GRAY_ALPHA] = 2,
	[STK_PIXELS_RGB] = 3,
	[STK_PIXELS_RGBA] = 4,
	[STK_PIXELS_CMYK] = 4,
	[STK_PIXELS_CMYK_INVERTED] = 4};

static void load(struct chunk *p, const void *src, enum stk_dtype dtype, int channels, int n)
{
	const uint8_t *s8 = src;
	const uint16_t *s16 = src;
	for (int k = 0; k < channels; k++)
		for (int i = 0; i < n; i++)
			p->c[k][i] = dtype == STK_UINT16 ? s16[i * channels + k] : s8[i * channels + k];
}

static void store(const struct chunk *p, const int *order, void *dst, bool is_16_bit, bool narrowed, int channels, int n)
{
	uint8_t *d8 = dst;
	uint16_t *d16 = dst;
	for (int k = 0; k < channels; k++) {
		const int32_t *c = p->c[order[k]];
		for (int i = 0; i < n; i++) {
			if (is_16_bit)
				d16[i * channels + k] = (uint16_t)c[i];
			else
				d8[i * channels + k] = (uint8_t)(narrowed ? (c[i] * 255 + 32767) / 65535 : c[i]);
		}
	}
}

/* Returns a * b / 255, truncated as by DALI; Pillow rounds. */
static int32_t product(int32_t a, int32_t b)
{
	return a * b / 255;
}

static void cmyk_to_rgb(struct chunk *p, int n)
{
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < n; i++)
			p->c[k][i] = product(255 - p->c[k][i], 255 - p->c[3][i]);
}

static void invert(struct chunk *p, int n)
{
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < n; i++)
			p->c[k][i] = 255 - p->c[k][i];
}

static void gray_to_rgb(struct chunk *p, int n)
{
	memcpy(p->c[1], p->c[0], (size_t)n * sizeof(int32_t));
	memcpy(p->c[2], p->c[0], (size_t)n * sizeof(int32_t));
}

/* Computes gray in float32 in DALI's order of operations. bias: added before the result is truncated; 0.5 makes it round. */
static void rgb_to_gray(struct chunk *p, float bias, int n)
{
	for (int i = 0; i < n; i++)
		p->c[0][i] = (int32_t)(0.299f * (float)p->c[0][i] + 0.587f * (float)p->c[1][i] + 0.114f * (float)p->c[2][i] + bias);
}

static void rgb_to_ycbcr(struct chunk *p, float unit, int n)
{
	for (int i = 0; i < n; i++) {
		int32_t out[3];
		stk__rgb_to_ycbcr(p->c[0][i], p->c[1][i], p->c[2][i], unit, out);
		for (int k = 0; k < 3; k++)
			p->c[k][i] = out[k];
	}
}

/* Converts n pixels in place to any type except ANY_DATA. Afterwards p has 3 channels, or 1 for gray. unit: the difference of the source's values that makes a
 * difference of 1 in 8 bits. */
static void convert_chunk(struct chunk *p, enum stk_pixels from, enum stk_image_type to, float unit, enum stk_gray rule, int n)
{
	bool gray = from == STK_PIXELS_GRAY || from == STK_PIXELS_GRAY_ALPHA;
	if (from == STK_PIXELS_CMYK || from == STK_PIXELS_CMYK_INVERTED)
		cmyk_to_rgb(p, n);
	if (gray && to != STK_GRAY)
		gray_to_rgb(p, n);
	if (!gray && to == STK_GRAY)
		rgb_to_gray(p, rule == STK_GRAY_ROUNDED && unit == 1 ? .5f : 0, n);
	if (to == STK_YCBCR)
		rgb_to_ycbcr(p, unit, n);
}

static float value_at(const void *row, enum stk_dtype dtype, int i)
{
	return dtype == STK_FLOAT ? ((const float *)row)[i] : (float)((const int16_t *)row)[i];
}

/* Stores v as element i of a row: unchanged as FLOAT, rounded as INT16, or as UINT8, scaled so that `full_range` becomes 255 and then rounded (NaN gives 0).
 * Integers saturate. */
static void put_value(void *row, enum stk_dtype dtype, int i, float v, float full_range)
{
	float byte = v * 255 / full_range;
	if (dtype == STK_FLOAT)
		((float *)row)[i] = v;
	else if (dtype == STK_INT16)
		((int16_t *)row)[i] = (int16_t)(v < -32768 ? -32768 : v > 32767 ? 32767 : roundf(v));
	else
		((uint8_t *)row)[i] = byte > 0 ? byte < 255 ? (uint8_t)roundf(byte) : 255 : 0;
}

/* Converts pixels of FLOAT or INT16. full_range: the value of white. */
static void convert_values(enum stk_pixels from, enum stk_dtype from_dtype, const void *src, enum stk_image_type to, float full_range,
	enum stk_dtype to_dtype, void *dst, int n)
{
	static const int in_order[] = {0, 1, 2, 3}, reversed[] = {2, 1, 0};
	bool gray = from == STK_PIXELS_GRAY || from == STK_PIXELS_GRAY_ALPHA, any_data = to == STK_ANY_DATA;
	int in = channels_of[from], out = any_data ? in : to == STK_GRAY ? 1 : 3;
	const int *order = to == STK_BGR ? reversed : in_order;
	float unit = full_range / 255;
	for (int i = 0; i < n; i++) {
		float p[4] = {0}, converted[4];
		for (int k = 0; k < (any_data ? in : 3); k++)
			p[k] = value_at(src, from_dtype, i * in + (gray && !any_data ? 0 : k));
		memcpy(converted, p, sizeof p);
		if (to == STK_GRAY && !gray)
			converted[0] = 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
		if (to == STK_YCBCR) {
			converted[0] = 0.25678824f * p[0] + 0.50412941f * p[1] + 0.09790588f * p[2] + 16 * unit;
			converted[1] = -0.14822290f * p[0] - 0.29099279f * p[1] + 0.43921569f * p[2] + 128 * unit;
			converted[2] = 0.43921569f * p[0] - 0.36778831f * p[1] - 0.07142737f * p[2] + 128 * unit;
		}
		for (int k = 0; k < out; k++)
			put_value(dst, to_dtype, i * out + k, converted[order[k]], full_range);
	}
}

void stk__convert_row(enum stk_pixels from, enum stk_dtype from_dtype, const void *src, enum stk_image_type to, enum stk_dtype to_dtype,
	void *dst, int n, enum stk_gray gray)
{
	static const int in_order[] = {0, 1, 2, 3}, reversed[] = {2, 1, 0};
	int in = channels_of[from], out = to == STK_ANY_DATA ? in : to == STK_GRAY ? 1 : 3;
	const int *order = to == STK_BGR ? reversed : in_order;
	bool from_wide = from_dtype == STK_UINT16, to_wide = to_dtype == STK_UINT16;
	size_t in_size = stk_dtype_size(from_dtype), out_size = stk_dtype_size(to_dtype);
	bool same_channels = to == STK_ANY_DATA || (from == STK_PIXELS_RGB && to == STK_RGB) || (from == STK_PIXELS_GRAY && to == STK_GRAY);
	if (same_channels && from_dtype == to_dtype && from != STK_PIXELS_CMYK_INVERTED) {
		memcpy(dst, src, (size_t)n * (size_t)in * in_size);
		return;
	}
	if (from_dtype == STK_FLOAT || from_dtype == STK_INT16) {
		convert_values(from, from_dtype, src, to, from_dtype == STK_FLOAT ? 1 : 32767, to_dtype, dst, n);
		return;
	}
	struct chunk p;
	for (int i = 0; i < n; i += CHUNK) {
		int m = n - i < CHUNK ? n - i : CHUNK;
		load(&p, (const uint8_t *)src + (size_t)i * (size_t)in * in_size, from_dtype, in, m);
		if (from == STK_PIXELS_CMYK_INVERTED)
			invert(&p, m);
		if (to != STK_ANY_DATA)
			convert_chunk(&p, from, to, from_wide ? 257 : 1, gray, m);
		store(&p, order, (uint8_t *)dst + (size_t)i * (size_t)out * out_size, to_wide, from_wide && !to_wide, out, m);
	}
}
