/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_rows.h"

#include "codec/convert.h"

#include <string.h>

bool stk__jpeg_rows_supports(const struct stk_jpeg_scan *scan, enum stk_image_type type, int32_t *planes)
{
	*planes = type == STK_GRAY ? 1 : scan->components;
	return type != STK_GRAY || scan->color != STK_JPEG_RGB;
}

static bool triangle_x(uint8_t upsample)
{
	return upsample == STK_JPEG_UP_H2V1 || upsample == STK_JPEG_UP_H2V2;
}

static bool triangle_y(uint8_t upsample)
{
	return upsample == STK_JPEG_UP_H1V2 || upsample == STK_JPEG_UP_H2V2;
}

static bool make_plane(struct stk_jpeg_rows *r, int c, struct stk_arena *scratch)
{
	struct stk_jpeg_plane *p = &r->plane[c];
	const struct stk_jpeg_component *component = &r->scan->component[c];
	int32_t mcus = r->window->mcu_x1 - r->window->mcu_x0, x = r->window->pixels.x, size = r->scan->block_size[c];
	p->factor_x = r->scan->mcu_w / (component->h * size);
	p->factor_y = r->scan->mcu_h / (component->v * size);
	p->first = x / p->factor_x;
	p->count = (x + r->window->pixels.w - 1) / p->factor_x - p->first + 1;
	p->skip = x - p->first * p->factor_x;
	p->ring = 2 * size * component->v;
	p->x0 = r->window->mcu_x0 * component->h * size;
	p->stride = ((ptrdiff_t)mcus * component->h * size + 63) / 64 * 64 + 2 * STK_JPEG_ROW_PAD;
	uint8_t *memory = stk__arena_take(scratch, (size_t)p->stride * (size_t)p->ring);
	p->samples = memory + STK_JPEG_ROW_PAD;
	return memory;
}

bool stk__jpeg_rows_begin(struct stk_jpeg_rows *r, struct stk_arena *scratch)
{
	size_t pixels = (size_t)r->window->pixels.w + 8;
	r->done = r->window->pixels.y;
	r->context = 0;
	for (int c = 0; c < r->planes; c++) {
		uint8_t *memory = stk__arena_take(scratch, pixels + 2 * STK_JPEG_ROW_PAD);
		if (!memory || !make_plane(r, c, scratch))
			return false;
		r->line[c] = memory + STK_JPEG_ROW_PAD;
		if (triangle_y(r->scan->upsample[c]))
			r->context = r->scan->v_max;
	}
	r->rgb = r->type == STK_YCBCR ? stk__arena_take(scratch, 3 * pixels) : NULL;
	return r->type != STK_YCBCR || r->rgb;
}

static uint8_t *sample_at(const struct stk_jpeg_plane *p, int x, int y)
{
	return p->samples + (ptrdiff_t)(y % p->ring) * p->stride + (x - p->x0);
}

uint8_t *stk__jpeg_rows_block(const struct stk_jpeg_rows *r, int b, int mcu_y)
{
	const struct stk_jpeg_scan *s = r->scan;
	int c = s->block_component[b], size = s->block_size[c];
	return sample_at(&r->plane[c], r->plane[c].x0 + size * s->block_x[b], size * (mcu_y * s->component[c].v + s->block_y[b]));
}

/* Repeats the samples at the image's left and right edges, since triangle filters read beyond them. */
static void repeat_edges(const struct stk_jpeg_rows *r, int c, int mcu_y)
{
	const struct stk_jpeg_component *component = &r->scan->component[c];
	const struct stk_jpeg_plane *p = &r->plane[c];
	int rows = r->scan->block_size[c] * component->v, last = component->width - 1 - p->x0;
	uint8_t *row = sample_at(p, p->x0, mcu_y * rows);
	for (int y = 0; y < rows; y++, row += p->stride) {
		if (r->window->mcu_x0 == 0)
			row[-1] = row[0];
		if (r->window->mcu_x1 == r->scan->mcus_x)
			row[last + 1] = row[last];
	}
}

/* Returns a row of component c, upsampled to the pixels of the window in row y of the image. */
static const uint8_t *component_row(const struct stk_jpeg_rows *r, int c, int y)
{
	const struct stk_jpeg_plane *p = &r->plane[c];
	int row = p->factor_y == 1 ? y : y / p->factor_y, last = r->scan->component[c].height - 1;
	int second_row = y & 1 ? row + 1 : row - 1; /* second row of samples that the triangle filter reads, if the vertical factor is 2 */
	second_row = second_row < 0 ? 0 : second_row > last ? last : second_row;
	const uint8_t *nearest = sample_at(p, p->first, row);
	uint8_t *line = r->line[c];
	switch (r->scan->upsample[c]) {
	case STK_JPEG_UP_H2V1:
		r->kernels->upsample_h2v1(line, nearest, p->count);
		break;
	case STK_JPEG_UP_H2V2:
		r->kernels->upsample_h2v2(line, nearest, sample_at(p, p->first, second_row), p->count);
		break;
	case STK_JPEG_UP_H1V2:
		r->kernels->upsample_h1v2(line, nearest, sample_at(p, p->first, second_row), y & 1 ? 2 : 1, p->count);
		break;
	case STK_JPEG_UP_REPLICATE:
		stk__jpeg_replicate(line, nearest, p->factor_x, p->count);
		break;
	default:
		return nearest;
	}
	return line + p->skip;
}

static void write_row(const struct stk_jpeg_rows *r, int y)
{
	const struct stk_jpeg_kernels *k = r->kernels;
	int w = r->window->pixels.w;
	uint8_t *out = (uint8_t *)r->dst->data + (y - r->window->pixels.y) * r->dst->row;
	uint8_t *rgb = r->rgb ? r->rgb : out;
	bool bgr = r->type == STK_BGR;
	const uint8_t *c[3];
	for (int i = 0; i < r->planes; i++)
		c[i] = component_row(r, i, y);
	if (r->dst->channels == 1)
		memcpy(out, c[0], (size_t)w);
	else if (r->scan->color == STK_JPEG_YCBCR)
		k->ycc_to_rgb(rgb, c[0], c[1], c[2], w, bgr);
	else if (r->scan->color == STK_JPEG_RGB)
		k->interleave(rgb, c[bgr ? 2 : 0], c[1], c[bgr ? 0 : 2], w);
	else
		k->interleave(rgb, c[0], c[0], c[0], w);
	if (r->rgb)
		stk__convert_row(STK_PIXELS_RGB, STK_UINT8, rgb, r->type, STK_UINT8, out, w, STK_GRAY_TRUNCATED);
}

void stk__jpeg_rows_finish(struct stk_jpeg_rows *r, int mcu_y)
{
	for (int c = 0; c < r->planes; c++)
		if (triangle_x(r->scan->upsample[c]))
			repeat_edges(r, c, mcu_y);
	int end = r->window->pixels.y + r->window->pixels.h, ready = (mcu_y + 1) * r->scan->mcu_h;
	if (mcu_y + 1 < r->scan->mcus_y)
		ready -= r->context;
	for (ready = ready < end ? ready : end; r->done < ready; r->done++)
		write_row(r, r->done);
}
