/* SPDX-License-Identifier: Apache-2.0
 *
 * Demosaicing: makes RGB or grey images from the data of a sensor with a Bayer filter, where each pixel has only one of the three colours. The other two are
 * means of the nearest pixels that have them, with the weights and rounding of OpenCV, which DALI's operator uses. stk__debayer_one makes one pixel; for
 * BILINEAR, the CPU makes rows (debayer.c), and the GPU makes four pixels at a time if they are bytes in aligned words (debayer_gpu.cu). */
#ifndef STK_KERNEL_DEBAYER_H
#define STK_KERNEL_DEBAYER_H

#include "base/hd.h"
#include "kernel/job/job.h"

#include <stdbool.h>
#include <stdint.h>

enum stk_debayer_method {
	STK_DEBAYER_BILINEAR,
	STK_DEBAYER_EDGES, /* green is interpolated along the direction that changes less */
	STK_DEBAYER_GRAY   /* one channel: the luma of BILINEAR */
};

/* The parameters. Images are dense. blue_x: 0 if the blue pixels are in columns with odd indices, 1 if they are in columns with even indices. blue_y: 0 or
 * 1 for rows with odd or even indices. */
struct stk_debayer {
	int32_t width, height;
	int32_t method, blue_x, blue_y;
	bool wide; /* true if values are uint16, false if they are uint8 */
};

/* Makes all pixels on the CPU. pixels: total number of pixels of all frames. The _avx2 function is the same source, compiled for AVX2. */
void stk__debayer_run(const struct stk_debayer *b, const void *src, void *dst, int64_t pixels);
void stk__debayer_run_avx2(const struct stk_debayer *b, const void *src, void *dst, int64_t pixels);

STK_HD int32_t stk__debayer_load(const struct stk_debayer *b, const void *src, int64_t i)
{
	return b->wide ? ((const uint16_t *)src)[i] : ((const uint8_t *)src)[i];
}

STK_HD void stk__debayer_store(const struct stk_debayer *b, void *dst, int64_t i, int32_t value)
{
	if (b->wide)
		((uint16_t *)dst)[i] = (uint16_t)value;
	else
		((uint8_t *)dst)[i] = (uint8_t)value;
}

STK_HD int32_t stk__debayer_size(int32_t a)
{
	return a < 0 ? -a : a;
}

/* Makes pixel i, counted over all frames. Pixels at the edge copy the nearest pixel that is not at the edge. Images smaller than 3 x 3 become 0. */
STK_HD void stk__debayer_one(const struct stk_debayer *b, const void *src, void *dst, uint32_t i)
{
	uint32_t row = i / (uint32_t)b->width, frame = row / (uint32_t)b->height;
	int32_t x = (int32_t)(i - row * (uint32_t)b->width), y = (int32_t)(row - frame * (uint32_t)b->height),
		channels = b->method == STK_DEBAYER_GRAY ? 1 : 3;
	int64_t w = b->width, out = (int64_t)i * channels;
	if (b->width < 3 || b->height < 3) {
		for (int32_t c = 0; c < channels; c++)
			stk__debayer_store(b, dst, out + c, 0);
		return;
	}
	x = x < 1 ? 1 : x > b->width - 2 ? b->width - 2 : x;
	y = y < 1 ? 1 : y > b->height - 2 ? b->height - 2 : y;
	int64_t at = ((int64_t)frame * b->height + y) * w + x;
	int32_t own = stk__debayer_load(b, src, at), west = stk__debayer_load(b, src, at - 1), east = stk__debayer_load(b, src, at + 1),
		north = stk__debayer_load(b, src, at - w), south = stk__debayer_load(b, src, at + w);
	bool column = (x + b->blue_x) % 2 != 0, line = (y + b->blue_y) % 2 != 0; /* true if blue pixels are in this column (row) */
	if (column != line) { /* a green pixel: its neighbours left and right have one colour, those above and below the other */
		int32_t side = west + east, above = north + south, blue = line ? side : above, red = line ? above : side;
		if (b->method == STK_DEBAYER_GRAY) {
			stk__debayer_store(b, dst, out, (blue * 1868 + red * 4899 + own * (2 * 9617) + (1 << 14)) >> 15);
			return;
		}
		stk__debayer_store(b, dst, out, (red + 1) >> 1);
		stk__debayer_store(b, dst, out + 1, own);
		stk__debayer_store(b, dst, out + 2, (blue + 1) >> 1);
		return;
	}
	int32_t corners = stk__debayer_load(b, src, at - w - 1) + stk__debayer_load(b, src, at - w + 1) +
			  stk__debayer_load(b, src, at + w - 1) + stk__debayer_load(b, src, at + w + 1);
	int32_t cross = west + east + north + south, green = (cross + 2) >> 2, other = (corners + 2) >> 2;
	if (b->method == STK_DEBAYER_EDGES)
		green = (stk__debayer_size(west - east) > stk__debayer_size(north - south) ? north + south + 1 : west + east + 1) >> 1;
	if (b->method == STK_DEBAYER_GRAY) {
		int64_t luma =
			(int64_t)corners * (column ? 4899 : 1868) + (int64_t)cross * 9617 + (int64_t)own * (column ? 1868 * 4 : 4899 * 4);
		stk__debayer_store(b, dst, out, (int32_t)((luma + (1 << 15)) >> 16));
		return;
	}
	stk__debayer_store(b, dst, out, column ? other : own);
	stk__debayer_store(b, dst, out + 1, green);
	stk__debayer_store(b, dst, out + 2, column ? own : other);
}

STK_PARAMS_FIT(stk_debayer);

/* Makes a job that demosaics all frames of `in`. `out` has one or three channels (b->method). */
STK_MUST_USE enum stk_status stk__job_debayer(struct stk_jobs *jobs, const struct stk_debayer *b, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);

#endif
