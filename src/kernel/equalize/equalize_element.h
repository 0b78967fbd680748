/* SPDX-License-Identifier: Apache-2.0
 * The parts of equalisation (equalize.h) that C and CUDA share: the pixels of a tile, a table from its counts, one output. */
#ifndef STK_KERNEL_EQUALIZE_ELEMENT_H
#define STK_KERNEL_EQUALIZE_ELEMENT_H

#include "kernel/common/border.h"
#include "kernel/equalize/equalize.h"

#include <math.h>

STK_HD int64_t stk__equalize_planes(const struct stk_equalize *e)
{
	return e->lightness ? e->outer : e->outer * e->channels;
}

STK_HD int64_t stk__equalize_tables(const struct stk_equalize *e)
{
	return stk__equalize_planes(e) * (e->tiles_x ? e->tiles_x * e->tiles_y : 1);
}

/* Returns the number of values that the second phase makes: outputs, or pixels if only the lightness is equalised. */
STK_HD int64_t stk__equalize_outputs(const struct stk_equalize *e)
{
	return e->outer * e->height * e->width * (e->lightness ? 1 : e->channels);
}

/* Returns the value of pixel (x, y) that is counted and mapped: a channel, or the lightness. plane: frame * channels + channel; if only the lightness is
 * equalised, the frame. */
STK_HD uint8_t stk__equalize_value(const struct stk_equalize *e, const struct stk_equalize_data *d, int64_t plane, int32_t x, int32_t y)
{
	int64_t frame = e->lightness ? plane : plane / e->channels, channel = e->lightness ? 0 : plane % e->channels;
	const uint8_t *pixel = d->src + ((frame * e->height + y) * e->width + x) * e->channels + channel;
	return e->lightness ? stk__lab_of(d->lab, pixel).l : *pixel;
}

/* Returns value k of tile `tile` of a plane. Values are numbered row by row; a tile that exceeds the image is completed by mirroring it. */
STK_HD uint8_t stk__equalize_tile_value(
	const struct stk_equalize *e, const struct stk_equalize_data *d, int64_t plane, int32_t tile, int32_t k)
{
	int32_t x = tile % e->tiles_x * e->tile_w + k % e->tile_w, y = tile / e->tiles_x * e->tile_h + k / e->tile_w;
	x = stk__border_index(x, e->width, STK_BORDER_REFLECT_101);
	y = stk__border_index(y, e->height, STK_BORDER_REFLECT_101);
	return stk__equalize_value(e, d, plane, x, y);
}

/* Returns x rounded to nearest, halves to even, like OpenCV, but at most 255. x is not negative. */
STK_HD uint8_t stk__equalize_round(float x)
{
	int32_t whole = (int32_t)lrintf(x);
	return (uint8_t)(whole < 255 ? whole : 255);
}

/* Limits each count to `limit`, and distributes what was cut off evenly over all bins. Counts may thereby exceed the limit again. */
STK_HD void stk__equalize_clip(int32_t *counts, int32_t limit)
{
	int32_t cut = 0;
	for (int i = 0; i < STK_EQUALIZE_BINS; i++) {
		cut += counts[i] > limit ? counts[i] - limit : 0;
		counts[i] = counts[i] > limit ? limit : counts[i];
	}
	int32_t each = cut / STK_EQUALIZE_BINS, rest = cut % STK_EQUALIZE_BINS;
	for (int i = 0; i < STK_EQUALIZE_BINS; i++)
		counts[i] += each;
	int32_t step = rest ? STK_EQUALIZE_BINS / rest : 1;
	for (int i = 0; i < STK_EQUALIZE_BINS && rest > 0; i += step, rest--)
		counts[i]++;
}

/* Properties of counts, for a table that is not adaptive: number of pixels, their smallest and largest value, and the numbers of pixels with these values. */
struct stk_equalize_range {
	int32_t n, first, last, at_first, at_last;
};

/* Returns entry i by OpenCV's rule, which maps the smallest value to 0; i if all pixels have the same value. below, count: as in stk__equalize_entry. */
STK_HD uint8_t stk__equalize_opencv(const struct stk_equalize_range *r, int32_t i, int32_t below, int32_t count)
{
	int32_t left = r->n - r->at_first;
	float scale = 255.0f / (float)left;
	return left ? stk__equalize_round((float)(i > r->first ? below + count - r->at_first : 0) * scale) : (uint8_t)i;
}

/* Returns entry i by Pillow's rule: the number of pixels with smaller values, in units of 1/255 of the pixels that do not have the largest value; i if there
 * are fewer than 255 such pixels. */
STK_HD uint8_t stk__equalize_pillow(const struct stk_equalize_range *r, int32_t i, int32_t below)
{
	int32_t step = (r->n - r->at_last) / 255, value = step ? (step / 2 + below) / step : i;
	return (uint8_t)(value < 255 ? value : 255);
}

/* Returns the value to which i is mapped if r->first .. r->last is stretched to 0 .. 255; truncates like Pillow. A range of one value changes nothing. */
STK_HD uint8_t stk__equalize_stretch(const struct stk_equalize_range *r, int32_t i)
{
	double scale = 255.0 / (r->last > r->first ? r->last - r->first : 1), offset = -r->first * scale;
	double value = r->last > r->first ? i * scale + offset : i;
	return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Returns entry i of a table. table: enum stk_equalize_table. count: number of pixels with value i; below: number of pixels with smaller values. */
STK_HD uint8_t stk__equalize_entry(uint8_t table, const struct stk_equalize_range *r, int32_t i, int32_t below, int32_t count)
{
	return table == STK_EQUALIZE_PILLOW    ? stk__equalize_pillow(r, i, below)
	       : table == STK_EQUALIZE_STRETCH ? stk__equalize_stretch(r, i)
					       : stk__equalize_opencv(r, i, below, count);
}

STK_HD void stk__equalize_adaptive(int32_t *counts, int32_t limit, int32_t n, uint8_t *table)
{
	int32_t sum = 0;
	float scale = 255.0f / (float)n;
	if (limit)
		stk__equalize_clip(counts, limit);
	for (int i = 0; i < STK_EQUALIZE_BINS; i++) {
		sum += counts[i];
		table[i] = n ? stk__equalize_round((float)sum * scale) : (uint8_t)i;
	}
}

/* Makes the table for n pixels. counts: number of pixels with each value; an adaptive table with a limit overwrites them. */
STK_HD void stk__equalize_table(const struct stk_equalize *e, int32_t *counts, int32_t n, uint8_t *table)
{
	struct stk_equalize_range r;
	int32_t below = 0;
	if (e->tiles_x) {
		stk__equalize_adaptive(counts, e->limit, n, table);
		return;
	}
	r.n = n;
	r.first = 0;
	r.last = STK_EQUALIZE_BINS - 1;
	while (r.first < r.last && !counts[r.first])
		r.first++;
	while (r.last > r.first && !counts[r.last])
		r.last--;
	r.at_first = counts[r.first];
	r.at_last = counts[r.last];
	for (int i = 0; i < STK_EQUALIZE_BINS; i++) {
		table[i] = stk__equalize_entry(e->table, &r, i, below, counts[i]);
		below += counts[i];
	}
}

/* The two tiles along an axis between whose centres a pixel lies, and the weight of the second tile. At the image's edges both are the same tile. */
struct stk_equalize_near {
	int32_t first, second;
	float share;
};

STK_HD struct stk_equalize_near stk__equalize_near(int32_t x, int32_t tile, int32_t tiles)
{
	float at = (float)x * (1.0f / (float)tile) - 0.5f, whole = floorf(at);
	struct stk_equalize_near near;
	near.first = (int32_t)whole > 0 ? (int32_t)whole : 0;
	near.second = (int32_t)whole + 1 < tiles ? (int32_t)whole + 1 : tiles - 1;
	near.share = at - whole;
	return near;
}

STK_HD uint8_t stk__equalize_blend(uint8_t top_left, uint8_t top_right, uint8_t bottom_left, uint8_t bottom_right, float right, float down)
{
	float left = 1 - right, top = (float)top_left * left + (float)top_right * right,
	      bottom = (float)bottom_left * left + (float)bottom_right * right;
	return stk__equalize_round(top * (1 - down) + bottom * down);
}

/* Returns the result for a value at (x, y): the mean of its entries in the tables of the four nearest tiles, weighted by distance, or its entry in the plane's
 * table if there are no tiles. */
STK_HD uint8_t stk__equalize_mix(
	const struct stk_equalize *e, const struct stk_equalize_data *d, int64_t plane, uint8_t value, int32_t x, int32_t y)
{
	const uint8_t *tables = d->tables + plane * (e->tiles_x ? e->tiles_x * e->tiles_y : 1) * STK_EQUALIZE_BINS + value;
	if (!e->tiles_x)
		return *tables;
	struct stk_equalize_near across = stk__equalize_near(x, e->tile_w, e->tiles_x),
				 along = stk__equalize_near(y, e->tile_h, e->tiles_y);
	const uint8_t *above = tables + (int64_t)along.first * e->tiles_x * STK_EQUALIZE_BINS,
		      *below = tables + (int64_t)along.second * e->tiles_x * STK_EQUALIZE_BINS;
	int32_t left = across.first * STK_EQUALIZE_BINS, right = across.second * STK_EQUALIZE_BINS;
	return stk__equalize_blend(above[left], above[right], below[left], below[right], across.share, along.share);
}

/* Makes value i of the output from the tables, or pixel i if only the lightness is equalised. */
STK_HD void stk__equalize_one(const struct stk_equalize *e, const struct stk_equalize_data *d, uint32_t i)
{
	uint32_t inner = e->lightness ? 1 : (uint32_t)e->channels, pixel = i / inner, channel = i - pixel * inner;
	uint32_t row = pixel / (uint32_t)e->width, x = pixel - row * (uint32_t)e->width, frame = row / (uint32_t)e->height,
		 y = row - frame * (uint32_t)e->height;
	if (!e->lightness) {
		d->dst[i] = stk__equalize_mix(e, d, (int64_t)frame * inner + channel, d->src[i], (int32_t)x, (int32_t)y);
		return;
	}
	struct stk_lab lab = stk__lab_of(d->lab, d->src + 3 * (int64_t)pixel);
	lab.l = stk__equalize_mix(e, d, frame, lab.l, (int32_t)x, (int32_t)y);
	stk__lab_to_rgb(d->lab, lab, d->dst + 3 * (int64_t)pixel);
}

STK_HD struct stk_equalize_data stk__job_equalize_data(const struct stk_job *job)
{
	struct stk_equalize_data d;
	d.src = job->src[0];
	d.dst = job->dst;
	d.tables = (uint8_t *)job->work;
	d.lab = (const struct stk_lab_tables *)job->constants;
	return d;
}

#endif
