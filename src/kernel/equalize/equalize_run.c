/* SPDX-License-Identifier: Apache-2.0
 * Equalisation on the CPU. */
#include "kernel/equalize/equalize_element.h"

#include <string.h>

enum { TOGETHER = 4 };

/* Counts the values of n channels, from channel `first` on, in one traversal. Adjacent pixels are often equal, so every second pixel is counted in another
 * array: otherwise an increment would wait for the previous one. */
static inline void count_channels(
	const struct stk_equalize *e, const uint8_t *src, int32_t first, int32_t n, int32_t counts[][STK_EQUALIZE_BINS])
{
	int32_t odd[TOGETHER][STK_EQUALIZE_BINS];
	int64_t pixels = (int64_t)e->width * e->height, step = e->channels;
	memset(counts, 0, sizeof *counts * (size_t)n);
	memset(odd, 0, sizeof *odd * (size_t)n);
	for (src += first; pixels > 1; pixels -= 2, src += 2 * step)
		for (int32_t c = 0; c < n; c++) {
			counts[c][src[c]]++;
			odd[c][src[step + c]]++;
		}
	for (int32_t c = 0; c < n; c++) {
		if (pixels)
			counts[c][src[c]]++;
		for (int32_t k = 0; k < STK_EQUALIZE_BINS; k++)
			counts[c][k] += odd[c][k];
	}
}

static inline void map_channels(const struct stk_equalize *e, const uint8_t *restrict src, const uint8_t *restrict tables, int32_t first,
	int32_t n, uint8_t *restrict dst)
{
	int64_t values = (int64_t)e->width * e->height * e->channels;
	for (int64_t i = first; i < values; i += e->channels)
		for (int32_t k = 0; k < n; k++)
			dst[i + k] = tables[(size_t)k * STK_EQUALIZE_BINS + src[i + k]];
}

static void equalize_channels(const struct stk_equalize *e, const struct stk_equalize_data *d, int64_t frame)
{
	int32_t counts[TOGETHER][STK_EQUALIZE_BINS];
	int64_t pixels = (int64_t)e->width * e->height;
	const uint8_t *src = d->src + frame * pixels * e->channels;
	uint8_t *dst = d->dst + frame * pixels * e->channels;
	const struct stk_equalize rgb = {.width = e->width, .height = e->height, .channels = 3};
	for (int32_t c = 0, n; c < e->channels; c += n) {
		n = e->channels - c < TOGETHER ? e->channels - c : TOGETHER;
		if (n == 3 && e->channels == 3) /* a constant number of channels makes the loops faster */
			count_channels(&rgb, src, 0, 3, counts);
		else
			count_channels(e, src, c, n, counts);
		for (int32_t k = 0; k < n; k++) {
			uint8_t *table = d->tables + (size_t)k * STK_EQUALIZE_BINS;
			stk__equalize_table(e, counts[k], (int32_t)pixels, table);
		}
		if (n == 3 && e->channels == 3)
			map_channels(&rgb, src, d->tables, 0, 3, dst);
		else
			map_channels(e, src, d->tables, c, n, dst);
	}
}

/* The values of one plane, which are `step` bytes apart, and the tables of its tiles. */
struct plane {
	const uint8_t *src;
	uint8_t *dst;
	const uint8_t *tables;
	int64_t step;
};

static void count_row(const struct stk_equalize *e, const struct plane *p, int32_t x0, int32_t y, int32_t *counts)
{
	int32_t inside = x0 + e->tile_w < e->width ? x0 + e->tile_w : e->width, x = x0;
	const uint8_t *row = p->src + (int64_t)stk__border_index(y, e->height, STK_BORDER_REFLECT_101) * e->width * p->step;
	for (; x < inside; x++)
		counts[row[x * p->step]]++;
	for (; x < x0 + e->tile_w; x++)
		counts[row[stk__border_index(x, e->width, STK_BORDER_REFLECT_101) * p->step]]++;
}

static void make_tables(const struct stk_equalize *e, const struct plane *p, uint8_t *tables)
{
	for (int32_t tile = 0; tile < e->tiles_x * e->tiles_y; tile++, tables += STK_EQUALIZE_BINS) {
		int32_t counts[STK_EQUALIZE_BINS] = {0}, x0 = tile % e->tiles_x * e->tile_w, y0 = tile / e->tiles_x * e->tile_h;
		for (int32_t y = y0; y < y0 + e->tile_h; y++)
			count_row(e, p, x0, y, counts);
		stk__equalize_table(e, counts, e->tile_w * e->tile_h, tables);
	}
}

/* For each of some columns of pixels: offsets of the tables of the two nearest tiles, to the left and to the right, and the weight of the right tile. */
enum { COLUMNS = 256 };
struct columns {
	int32_t left[COLUMNS], right[COLUMNS];
	float share[COLUMNS];
};

static void mix_columns(const struct stk_equalize *e, const struct plane *p, int32_t x0, int32_t n)
{
	struct columns c;
	for (int32_t k = 0; k < n; k++) {
		struct stk_equalize_near near = stk__equalize_near(x0 + k, e->tile_w, e->tiles_x);
		c.left[k] = near.first * STK_EQUALIZE_BINS;
		c.right[k] = near.second * STK_EQUALIZE_BINS;
		c.share[k] = near.share;
	}
	for (int32_t y = 0; y < e->height; y++) {
		struct stk_equalize_near near = stk__equalize_near(y, e->tile_h, e->tiles_y);
		const uint8_t *above = p->tables + (int64_t)near.first * e->tiles_x * STK_EQUALIZE_BINS,
			      *below = p->tables + (int64_t)near.second * e->tiles_x * STK_EQUALIZE_BINS;
		int64_t at = ((int64_t)y * e->width + x0) * p->step;
		for (int32_t k = 0; k < n; k++, at += p->step) {
			uint8_t v = p->src[at];
			p->dst[at] = stk__equalize_blend(above[c.left[k] + v], above[c.right[k] + v], below[c.left[k] + v],
				below[c.right[k] + v], c.share[k], near.share);
		}
	}
}

static void equalize_tiles(const struct stk_equalize *e, const struct plane *p, uint8_t *tables)
{
	make_tables(e, p, tables);
	for (int32_t x = 0; x < e->width; x += COLUMNS)
		mix_columns(e, p, x, e->width - x < COLUMNS ? e->width - x : COLUMNS);
}

/* Equalises the lightness of a frame. dst first contains L*a*b*, which is then converted to RGB in place. */
static void equalize_lightness(const struct stk_equalize *e, const struct stk_equalize_data *d, const uint8_t *src, uint8_t *dst)
{
	int64_t pixels = (int64_t)e->width * e->height;
	struct plane p = {dst, dst, d->tables, 3};
	for (int64_t i = 0; i < 3 * pixels; i += 3) {
		struct stk_lab lab = stk__lab_of(d->lab, src + i);
		dst[i] = lab.l;
		dst[i + 1] = lab.a;
		dst[i + 2] = lab.b;
	}
	equalize_tiles(e, &p, d->tables);
	for (int64_t i = 0; i < 3 * pixels; i += 3)
		stk__lab_to_rgb(d->lab, (struct stk_lab){dst[i], dst[i + 1], dst[i + 2]}, dst + i);
}

void stk__equalize_run(const struct stk_equalize *e, const struct stk_equalize_data *d)
{
	int64_t frame = (int64_t)e->width * e->height * e->channels;
	for (int64_t o = 0; o < e->outer; o++) {
		if (!e->tiles_x)
			equalize_channels(e, d, o);
		else if (e->lightness)
			equalize_lightness(e, d, d->src + o * frame, d->dst + o * frame);
		for (int32_t c = 0; e->tiles_x && !e->lightness && c < e->channels; c++) {
			struct plane p = {d->src + o * frame + c, d->dst + o * frame + c, d->tables, e->channels};
			equalize_tiles(e, &p, d->tables);
		}
	}
}
