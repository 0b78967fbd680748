/* SPDX-License-Identifier: Apache-2.0
 * Demosaicing on the CPU. The usual method, BILINEAR, is computed row by row without branches: at each pixel all means are computed, and masks select those
 * that the pixel's colour needs. debayer_avx2.c compiles this file again for wide registers. */
#include "kernel/debayer/debayer.h"

#include <string.h>

enum { PART = 512 }; /* maximum number of pixels that NAME_part makes */

/* NAME_part makes output pixels begin .. begin + n - 1 of a row, NAME_of a row, and NAME an image. In the sensor's data, a row has green pixels and pixels of
 * one other colour, red or blue, which is called the row's own colour. (x & 1) == phase for the pixels of this colour. own: index of this colour in an output
 * pixel; the third colour has index 2 - own. `sum` is a type that holds the sum of four values. */
#define ROW(name, type, sum)                                                                                                               \
	static inline __attribute__((always_inline)) void name##_part(type *restrict out, const type *restrict north,                      \
		const type *restrict row, const type *restrict south, int begin, int n, int phase, int own)                                \
	{                                                                                                                                  \
		type colours[3][PART];                                                                                                     \
		for (int i = 0; i < n; i++) {                                                                                              \
			int x = begin + i;                                                                                                 \
			sum side = (sum)(row[x - 1] + row[x + 1]), above = (sum)(north[x] + south[x]);                                     \
			sum corners = (sum)(north[x - 1] + north[x + 1] + south[x - 1] + south[x + 1]);                                    \
			type mask = (type) - (type)((x & 1) == phase);                                                                     \
			type cross = (type)((sum)(side + above + 2) >> 2), green = row[x];                                                 \
			colours[own][i] = (type)((mask & green) | (~mask & (type)((sum)(side + 1) >> 1)));                                 \
			colours[1][i] = (type)((mask & cross) | (~mask & green));                                                          \
			colours[2 - own][i] = (type)((mask & (type)((sum)(corners + 2) >> 2)) | (~mask & (type)((sum)(above + 1) >> 1)));  \
		}                                                                                                                          \
		out += 3 * begin;                                                                                                          \
		for (int i = 0; i < n; i++)                                                                                                \
			for (int c = 0; c < 3; c++)                                                                                        \
				out[3 * i + c] = colours[c][i];                                                                            \
	}                                                                                                                                  \
	static inline __attribute__((always_inline)) void name##_of(                                                                       \
		type *out, const type *north, const type *row, const type *south, int width, int phase, int own)                           \
	{                                                                                                                                  \
		for (int x = 1; x < width - 1; x += PART)                                                                                  \
			name##_part(out, north, row, south, x, width - 1 - x < PART ? width - 1 - x : PART, phase, own);                   \
		memcpy(out, out + 3, 3 * sizeof *out);                                                                                     \
		memcpy(out + 3 * (width - 1), out + 3 * (width - 2), 3 * sizeof *out);                                                     \
	}                                                                                                                                  \
	static void name(const struct stk_debayer *b, const type *src, type *dst)                                                          \
	{                                                                                                                                  \
		int64_t w = b->width;                                                                                                      \
		for (int32_t y = 1; y < b->height - 1; y++) {                                                                              \
			const type *row = src + y * w;                                                                                     \
			int phase = !b->blue_x; /* parity of the blue columns */                                                           \
			if ((y + b->blue_y) % 2)                                                                                           \
				name##_of(dst + 3 * y * w, row - w, row, row + w, b->width, phase, 2);                                     \
			else                                                                                                               \
				name##_of(dst + 3 * y * w, row - w, row, row + w, b->width, !phase, 0);                                    \
		}                                                                                                                          \
		memcpy(dst, dst + 3 * w, (size_t)(3 * w) * sizeof *dst);                                                                   \
		memcpy(dst + 3 * w * (b->height - 1), dst + 3 * w * (b->height - 2), (size_t)(3 * w) * sizeof *dst);                       \
	}

ROW(debayer_bytes, uint8_t, uint16_t)
ROW(debayer_words, uint16_t, uint32_t)

void stk__debayer_run(const struct stk_debayer *b, const void *src, void *dst, int64_t pixels)
{
	int64_t frame = (int64_t)b->width * b->height;
	bool rows = b->method == STK_DEBAYER_BILINEAR && b->width > 2 && b->height > 2;
	for (int64_t at = 0; rows && at < pixels; at += frame)
		if (b->wide)
			debayer_words(b, (const uint16_t *)src + at, (uint16_t *)dst + 3 * at);
		else
			debayer_bytes(b, (const uint8_t *)src + at, (uint8_t *)dst + 3 * at);
	for (int64_t i = 0; !rows && i < pixels; i++)
		stk__debayer_one(b, src, dst, (uint32_t)i);
}
