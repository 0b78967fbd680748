/* SPDX-License-Identifier: Apache-2.0
 * Equalisation on the CPU. */
#include "kernel/equalize/equalize_element.h"

#include <string.h>

void stk__equalize_tiles(struct stk_equalize *e, int32_t tiles_x, int32_t tiles_y, float clip_limit)
{
	bool even = e->width % tiles_x == 0 && e->height % tiles_y == 0;
	e->tiles_x = tiles_x;
	e->tiles_y = tiles_y;
	/* As OpenCV grows the image: by a whole row of tiles along a dim that is a multiple already, if the other is none. */
	e->tile_w = e->width / tiles_x + !even;
	e->tile_h = e->height / tiles_y + !even;
	double limit = (double)clip_limit * e->tile_w * e->tile_h / STK_EQUALIZE_BINS;
	e->limit = !(clip_limit > 0) ? 0 : limit < 1 ? 1 : limit < 0x1p30 ? (int32_t)limit : 1 << 30;
}

/* The counts of whole channels, of which there are few, in one trip. */
static void count_channels(const struct stk_equalize *e, const uint8_t *src, int32_t first, int32_t n, int32_t counts[][STK_EQUALIZE_BINS])
{
	int64_t pixels = (int64_t)e->width * e->height;
	memset(counts, 0, sizeof *counts * (size_t)n);
	for (src += first; pixels > 0; pixels--, src += e->channels)
		for (int32_t c = 0; c < n; c++)
			counts[c][src[c]]++;
}

static void equalize_channels(const struct stk_equalize *e, const struct stk_equalize_data *d, int64_t frame)
{
	enum { TOGETHER = 4 };
	int32_t counts[TOGETHER][STK_EQUALIZE_BINS];
	int64_t pixels = (int64_t)e->width * e->height;
	const uint8_t *src = d->src + frame * pixels * e->channels;
	uint8_t *dst = d->dst + frame * pixels * e->channels;
	for (int32_t c = 0, n; c < e->channels; c += n) {
		n = e->channels - c < TOGETHER ? e->channels - c : TOGETHER;
		count_channels(e, src, c, n, counts);
		for (int32_t k = 0; k < n; k++) {
			uint8_t *table = d->tables + (size_t)k * STK_EQUALIZE_BINS;
			stk__equalize_table(e, counts[k], (int32_t)pixels, table);
		}
		for (int64_t i = c; i < pixels * e->channels; i += e->channels)
			for (int32_t k = 0; k < n; k++)
				dst[i + k] = d->tables[(size_t)k * STK_EQUALIZE_BINS + src[i + k]];
	}
}

static void make_table(const struct stk_equalize *e, const struct stk_equalize_data *d, int64_t plane, int32_t tile)
{
	int32_t counts[STK_EQUALIZE_BINS] = {0}, x0 = tile % e->tiles_x * e->tile_w, y0 = tile / e->tiles_x * e->tile_h;
	for (int32_t y = y0; y < y0 + e->tile_h; y++) {
		int32_t row = stk__border_index(y, e->height, STK_BORDER_REFLECT_101);
		for (int32_t x = x0; x < x0 + e->tile_w; x++)
			counts[stk__equalize_value(e, d, plane, stk__border_index(x, e->width, STK_BORDER_REFLECT_101), row)]++;
	}
	stk__equalize_table(e, counts, e->tile_w * e->tile_h, d->tables + (plane * e->tiles_x * e->tiles_y + tile) * STK_EQUALIZE_BINS);
}

void stk__equalize_run(const struct stk_equalize *e, const struct stk_equalize_data *d)
{
	for (int64_t o = 0; !e->tiles_x && o < e->outer; o++)
		equalize_channels(e, d, o);
	if (!e->tiles_x)
		return;
	for (int64_t plane = 0; plane < stk__equalize_planes(e); plane++)
		for (int32_t tile = 0; tile < e->tiles_x * e->tiles_y; tile++)
			make_table(e, d, plane, tile);
	for (int64_t i = 0; i < stk__equalize_outputs(e); i++)
		stk__equalize_one(e, d, (uint32_t)i);
}
