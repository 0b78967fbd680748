/* SPDX-License-Identifier: Apache-2.0
 * Runs the phases of jpeg_distortion.h on the CPU: planes and pixels row by row, blocks several at a time, one in each lane of a vector.
 * jpeg_distortion_avx2.c compiles this file again for wide registers. */
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"

#include <string.h>

#ifdef __AVX2__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef int32_t words __attribute__((vector_size(4 * LANES)));
typedef float lanes __attribute__((vector_size(4 * LANES)));

#define STK_DCT_WORD words
#define STK_DCT(name) wide_##name
#include "kernel/jpeg_distortion/jpeg_distortion_dct.h"

/* ---- planes ---- */

static void luma_row(uint8_t *restrict out, const uint8_t *restrict rgb, int n)
{
	for (int x = 0; x < n; x++, rgb += 3)
		out[x] = (uint8_t)((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
}

static void chroma_row(uint8_t *restrict blue, uint8_t *restrict red, const uint8_t *restrict rgb, int n)
{
	for (int x = 0; x < n; x++, rgb += 3) {
		blue[x] = (uint8_t)((-11059 * rgb[0] - 21709 * rgb[1] + 32768 * rgb[2] + (128 << 16) + 32767) >> 16);
		red[x] = (uint8_t)((32768 * rgb[0] - 27439 * rgb[1] - 5329 * rgb[2] + (128 << 16) + 32767) >> 16);
	}
}

/* Sets out[0 .. n - 1] to the means of 2 x 2 values of two rows. n must be even, since 1 and 2 are added in turn before the sums are divided by 4, as in
 * libjpeg. */
static void halve_row(uint8_t *restrict out, const uint8_t *restrict top, const uint8_t *restrict bottom, int n)
{
	for (int x = 0; x < n; x += 2)
		for (int k = 0; k < 2; k++)
			out[x + k] = (uint8_t)((top[2 * x + 2 * k] + top[2 * x + 2 * k + 1] + bottom[2 * x + 2 * k] +
						       bottom[2 * x + 2 * k + 1] + 1 + k) >>
					       2);
}

static void make_luma(const struct stk_jpeg_distortion *j, const uint8_t *frame, uint8_t *plane)
{
	int32_t wide = j->wide[0];
	for (int32_t y = 0; y < j->high[0]; y++, plane += wide) {
		if (y >= j->height) {
			memcpy(plane, plane - wide, (size_t)wide);
			continue;
		}
		luma_row(plane, frame + 3 * (int64_t)y * j->width, j->width);
		memset(plane + j->width, plane[j->width - 1], (size_t)(wide - j->width));
	}
}

/* Makes the two planes of chroma of a frame. rows: scratch for four rows of 2 * wide[1] values. */
static void make_chroma(const struct stk_jpeg_distortion *j, const uint8_t *frame, uint8_t *blue, uint8_t *red, uint8_t *rows)
{
	int32_t wide = j->wide[1];
	for (int32_t y = 0; y < j->high[1]; y++, blue += wide, red += wide) {
		if (2 * y >= j->height) {
			memcpy(blue, blue - wide, (size_t)wide);
			memcpy(red, red - wide, (size_t)wide);
			continue;
		}
		for (int32_t k = 0; k < 2; k++) {
			int32_t row = 2 * y + k < j->height ? 2 * y + k : 2 * y;
			uint8_t *b = rows + 4 * k * wide, *r = b + 2 * wide;
			chroma_row(b, r, frame + 3 * (int64_t)row * j->width, j->width);
			memset(b + j->width, b[j->width - 1], (size_t)(2 * wide - j->width));
			memset(r + j->width, r[j->width - 1], (size_t)(2 * wide - j->width));
		}
		halve_row(blue, rows, rows + 4 * wide, wide);
		halve_row(red, rows + 2 * wide, rows + 6 * wide, wide);
	}
}

/* ---- blocks ---- */

static words quantise(words x, int32_t q)
{
	words sign = x >> 31, size = ((x ^ sign) - sign) + 4 * q;
	words multiple = __builtin_convertvector(__builtin_convertvector(size, lanes) / (float)(8 * q), words) * q;
	return (multiple ^ sign) - sign;
}

/* Distorts LANES adjacent blocks of 8 x 8 samples in place. stride: bytes from one row of samples to the next. quant: the table of quantisation steps. */
static void distort_blocks(uint8_t *samples, int64_t stride, const uint8_t *quant)
{
	words v[64];
	for (int y = 0; y < 8; y++)
		for (int b = 0; b < LANES; b++)
			for (int x = 0; x < 8; x++)
				v[8 * y + x][b] = samples[y * stride + 8 * b + x] - 128;
	for (int y = 0; y < 8; y++)
		wide_forward(v + 8 * y, 1, 2, 0, 11);
	for (int x = 0; x < 8; x++)
		wide_forward(v + x, 8, 0, 2, 15);
	for (int k = 0; k < 64; k++)
		v[k] = quantise(v[k], quant[k]);
	for (int x = 0; x < 8; x++)
		wide_inverse(v + x, 8, 11);
	for (int y = 0; y < 8; y++)
		wide_inverse(v + 8 * y, 1, 18);
	for (int k = 0; k < 64; k++) {
		words s = v[k] + 128;
		s &= ~(s >> 31);                      /* negative values become 0 */
		v[k] = (s | ((255 - s) >> 31)) & 255; /* values above 255 become all ones */
	}
	for (int y = 0; y < 8; y++)
		for (int b = 0; b < LANES; b++)
			for (int x = 0; x < 8; x++)
				samples[y * stride + 8 * b + x] = (uint8_t)v[8 * y + x][b];
}

static void distort_plane(uint8_t *plane, int32_t wide, int32_t high, const uint8_t *quant)
{
	for (int32_t y = 0; y < high; y += 8, plane += 8 * (int64_t)wide) {
		int32_t x = 0;
		for (; x + 8 * LANES <= wide; x += 8 * LANES)
			distort_blocks(plane + x, wide, quant);
		for (; x < wide; x += 8)
			stk__jpeg_distort_block(plane + x, wide, quant);
	}
}

/* ---- pixels ---- */

/* Makes one chroma component of 2 * columns pixels of a row. near, far: the nearest and the second nearest row of samples, of `columns` samples each; sums:
 * memory for columns + 2 values. */
static void widen_row(uint8_t *restrict out, const uint8_t *near, const uint8_t *far, int16_t *restrict sums, int32_t columns)
{
	for (int32_t x = 0; columns <= 2 && x < columns; x++)
		out[2 * x] = out[2 * x + 1] = near[x];
	if (columns <= 2)
		return;
	for (int32_t x = 0; x < columns; x++)
		sums[x + 1] = (int16_t)(3 * near[x] + far[x]);
	sums[0] = sums[1];
	sums[columns + 1] = sums[columns];
	for (int32_t x = 0; x < columns; x++) {
		out[2 * x] = (uint8_t)((3 * sums[x + 1] + sums[x] + 8) >> 4);
		out[2 * x + 1] = (uint8_t)((3 * sums[x + 1] + sums[x + 2] + 7) >> 4);
	}
}

static void store_row(uint8_t *restrict out, const uint8_t *restrict luma, const uint8_t *restrict blue, const uint8_t *restrict red, int n)
{
	for (int x = 0; x < n; x++, out += 3) {
		int32_t y = luma[x], cb = blue[x] - 128, cr = red[x] - 128;
		int32_t r = y + ((91881 * cr + 32768) >> 16), g = y + ((-22554 * cb - 46802 * cr + 32768) >> 16),
			b = y + ((116130 * cb + 32768) >> 16);
		r = r < 0 ? 0 : r;
		g = g < 0 ? 0 : g;
		b = b < 0 ? 0 : b;
		out[0] = (uint8_t)(r > 255 ? 255 : r);
		out[1] = (uint8_t)(g > 255 ? 255 : g);
		out[2] = (uint8_t)(b > 255 ? 255 : b);
	}
}

static void make_pixels(const struct stk_jpeg_distortion *j, const uint8_t *planes, uint8_t *dst, uint8_t *rows)
{
	int32_t wide = j->wide[1], columns = (j->width + 1) / 2, last = (j->height + 1) / 2 - 1;
	const uint8_t *blue = planes + stk__jpeg_plane(j, 0), *red = blue + stk__jpeg_plane(j, 1);
	uint8_t *b = rows, *r = rows + 2 * wide;
	int16_t *sums = (int16_t *)(void *)(rows + 4 * (int64_t)wide);
	for (int32_t y = 0; y < j->height; y++) {
		int32_t near = y / 2, far = y & 1 ? (near < last ? near + 1 : near) : near ? near - 1 : near;
		widen_row(b, blue + (int64_t)near * wide, blue + (int64_t)far * wide, sums, columns);
		widen_row(r, red + (int64_t)near * wide, red + (int64_t)far * wide, sums, columns);
		store_row(dst + 3 * (int64_t)y * j->width, planes + (int64_t)y * j->wide[0], b, r, j->width);
	}
}

void stk__jpeg_distortion_run(const struct stk_jpeg_distortion *j, const uint8_t *src, uint8_t *dst, uint8_t *work)
{
	int64_t luma = stk__jpeg_plane(j, 0), chroma = stk__jpeg_plane(j, 1), frame = 3 * (int64_t)j->width * j->height;
	uint8_t *rows = work + luma + 2 * chroma;
	for (int64_t f = 0; f < j->frames; f++, src += frame, dst += frame) {
		make_luma(j, src, work);
		make_chroma(j, src, work + luma, work + luma + chroma, rows);
		for (int c = 0; c < 3; c++)
			distort_plane(work + (c ? luma + (c - 1) * chroma : 0), j->wide[c > 0], j->high[c > 0], j->quant[c > 0]);
		make_pixels(j, work, dst, rows);
	}
}
