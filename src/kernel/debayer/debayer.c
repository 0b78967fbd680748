/* SPDX-License-Identifier: Apache-2.0
 * Demosaicing on the CPU. The usual method runs over rows: all means are taken at each pixel, and those that its colour asks for are kept, so that there is
 * nothing to decide in between. Once more for wide registers: debayer_avx2.c. */
#include "kernel/debayer/debayer.h"

#include <string.h>

/* Pixels 1 .. width - 2 of a row, of which those with (x & 1) == phase are of the row's own colour, the others green. own: where in a pixel that colour
 * stands; the third one stands at 2 - own. */
#define ROW(name, type)                                                                                                                    \
	static inline __attribute__((always_inline)) void name##_of(type *restrict out, const type *restrict north,                        \
		const type *restrict row, const type *restrict south, int width, int phase, int own)                                       \
	{                                                                                                                                  \
		for (int x = 1; x < width - 1; x++) {                                                                                      \
			int side = row[x - 1] + row[x + 1], above = north[x] + south[x];                                                   \
			int corners = north[x - 1] + north[x + 1] + south[x - 1] + south[x + 1];                                           \
			bool colour = (x & 1) == phase;                                                                                    \
			out[3 * x + own] = (type)(colour ? row[x] : (side + 1) >> 1);                                                      \
			out[3 * x + 1] = (type)(colour ? (side + above + 2) >> 2 : row[x]);                                                \
			out[3 * x + 2 - own] = (type)(colour ? (corners + 2) >> 2 : (above + 1) >> 1);                                     \
		}                                                                                                                          \
		memcpy(out, out + 3, 3 * sizeof *out);                                                                                     \
		memcpy(out + 3 * (width - 1), out + 3 * (width - 2), 3 * sizeof *out);                                                     \
	}                                                                                                                                  \
	static void name(const struct stk_debayer *b, const type *src, type *dst)                                                          \
	{                                                                                                                                  \
		int64_t w = b->width;                                                                                                      \
		for (int32_t y = 1; y < b->height - 1; y++) {                                                                              \
			const type *row = src + y * w;                                                                                     \
			int phase = !b->blue_x; /* of blue columns */                                                                      \
			if ((y + b->blue_y) % 2)                                                                                           \
				name##_of(dst + 3 * y * w, row - w, row, row + w, b->width, phase, 2);                                     \
			else                                                                                                               \
				name##_of(dst + 3 * y * w, row - w, row, row + w, b->width, !phase, 0);                                    \
		}                                                                                                                          \
		memcpy(dst, dst + 3 * w, (size_t)(3 * w) * sizeof *dst);                                                                   \
		memcpy(dst + 3 * w * (b->height - 1), dst + 3 * w * (b->height - 2), (size_t)(3 * w) * sizeof *dst);                       \
	}

ROW(debayer_bytes, uint8_t)
ROW(debayer_words, uint16_t)

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
