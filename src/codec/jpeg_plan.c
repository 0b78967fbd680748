/* SPDX-License-Identifier: Apache-2.0
 * Plans the work of the fast decoders from a header: computes the geometry of the scan, and which MCUs a window needs. */
#include "codec/jpeg_header.h"

#include "kernel/jpeg/jpeg_tables.h"

#include <string.h>

bool stk__jpeg_huffman_valid(const struct stk_jpeg_huffman *t, bool dc)
{
	unsigned code = 0, symbols = 0;
	for (int length = 1; length <= 16; length++) {
		code = (code << 1) + t->counts[length - 1];
		symbols += t->counts[length - 1];
		if (code >= 1u << length) /* there are too many codes for this length, or one consists only of ones */
			return false;
	}
	for (unsigned i = 0; dc && i < symbols; i++)
		if (t->values[i] > 15)
			return false;
	return symbols > 0;
}

bool stk__jpeg_dc_usable(const struct stk_jpeg_huffman *t)
{
	for (int i = 0; i < 256; i++)
		if (t->values[i] > STK_JPEG_MAX_DC_SIZE)
			return false;
	return stk__jpeg_huffman_valid(t, true);
}

static bool tables_usable(const struct stk_jpeg_header *h)
{
	const struct stk_jpeg_tables *t = &h->tables;
	for (int i = 0; i < h->components; i++) {
		const struct stk_jpeg_component *c = &h->component[i];
		if (c->quant >= STK_JPEG_TABLES || c->dc >= STK_JPEG_TABLES || c->ac >= STK_JPEG_TABLES)
			return false;
		if (!(t->quant_mask >> c->quant & 1) || !(t->dc_mask >> c->dc & 1) || !(t->ac_mask >> c->ac & 1))
			return false;
		if (!stk__jpeg_huffman_valid(&t->dc[c->dc], true) || !stk__jpeg_huffman_valid(&t->ac[c->ac], false))
			return false;
	}
	return true;
}

/* Chooses a component's upsampling as libjpeg does (jdsample.c of libjpeg-turbo 2.1). Factors of 2 have triangle filters, unless the component is too narrow
 * for the horizontal filter or its blocks become single samples. Returns false if the factors are not integers. */
static bool choose_upsample(struct stk_jpeg_scan *s, int i)
{
	const struct stk_jpeg_component *c = &s->component[i];
	int h = c->h * s->block_size[i] / s->scale, v = c->v * s->block_size[i] / s->scale;
	if (s->h_max % h || s->v_max % v)
		return false;
	int fx = s->h_max / h, fy = s->v_max / v;
	bool fancy = s->scale > 1;
	uint8_t method = STK_JPEG_UP_REPLICATE;
	if (fx == 1 && fy == 1)
		method = STK_JPEG_UP_NONE;
	else if (fancy && fx == 1 && fy == 2)
		method = STK_JPEG_UP_H1V2;
	else if (fancy && fx == 2 && fy <= 2 && c->width > 2)
		method = fy == 1 ? STK_JPEG_UP_H2V1 : STK_JPEG_UP_H2V2;
	s->upsample[i] = method;
	return true;
}

/* Chooses the number of samples that a component's blocks become, as libjpeg does (jdmaster.c): doubles it while both upsampling factors are even. */
static uint8_t choose_size(const struct stk_jpeg_scan *s, const struct stk_jpeg_component *c)
{
	int size = s->scale;
	while (size < 8 && s->h_max * s->scale % (c->h * size * 2) == 0 && s->v_max * s->scale % (c->v * size * 2) == 0)
		size *= 2;
	return (uint8_t)size;
}

static int32_t divide_up(int64_t a, int64_t b)
{
	return (int32_t)((a + b - 1) / b);
}

void stk__jpeg_scan_scale(struct stk_jpeg_scan *s, int32_t denom)
{
	if (denom == 1)
		return;
	s->scale = 8 / denom;
	for (int i = 0; i < s->components; i++) {
		struct stk_jpeg_component *c = &s->component[i];
		s->block_size[i] = choose_size(s, c);
		c->width = divide_up((int64_t)s->width * c->h * s->block_size[i], 8 * s->h_max);
		c->height = divide_up((int64_t)s->height * c->v * s->block_size[i], 8 * s->v_max);
		(void)choose_upsample(s, i); /* cannot fail: a size is only doubled if the factors are even, so they stay integers */
	}
	s->width = divide_up(s->width, denom);
	s->height = divide_up(s->height, denom);
	s->mcu_w = s->scale * s->h_max;
	s->mcu_h = s->scale * s->v_max;
}

static bool place_blocks(struct stk_jpeg_scan *s)
{
	for (int i = 0; i < s->components; i++)
		for (int y = 0; y < s->component[i].v; y++)
			for (int x = 0; x < s->component[i].h; x++) {
				if (s->blocks == STK_JPEG_MAX_BLOCKS)
					return false;
				s->block_component[s->blocks] = (uint8_t)i;
				s->block_x[s->blocks] = (uint8_t)x;
				s->block_y[s->blocks++] = (uint8_t)y;
			}
	return true;
}

bool stk__jpeg_frame_plan(const struct stk_jpeg_header *h, struct stk_jpeg_scan *s)
{
	if (h->components != 1 && h->components != 3)
		return false;
	*s = (struct stk_jpeg_scan){.width = h->width,
		.height = h->height,
		.components = h->components,
		.h_max = h->h_max,
		.v_max = h->v_max,
		.color = h->color};
	for (int i = 0; i < h->components; i++)
		s->component[i] = h->component[i];
	s->rows_together = h->components == 1 ? s->component[0].v : 1;
	if (h->components == 1) /* in a scan of one component an MCU is one block, whatever the sampling factors are [A.2.2] */
		s->h_max = s->v_max = s->component[0].h = s->component[0].v = 1;
	s->scale = 8;
	for (int i = 0; i < h->components; i++) {
		s->block_size[i] = 8;
		if (!choose_upsample(s, i))
			return false;
	}
	s->mcu_w = 8 * s->h_max;
	s->mcu_h = 8 * s->v_max;
	s->mcus_x = (s->width + s->mcu_w - 1) / s->mcu_w;
	s->mcus_y = (s->height + s->mcu_h - 1) / s->mcu_h;
	return place_blocks(s);
}

bool stk__jpeg_scan_plan(const struct stk_jpeg_header *h, size_t end, struct stk_jpeg_scan *s)
{
	if (h->process > STK_JPEG_EXTENDED || h->scan_components != h->components || end < h->scan_offset || !stk__jpeg_frame_plan(h, s))
		return false;
	if (h->spectral_start != 0 || h->spectral_end != 63 || h->approx_high || h->approx_low || !tables_usable(h))
		return false;
	for (int i = 0; i < h->components; i++)
		if (h->scan_order[i] != i)
			return false;
	s->restart_interval = h->restart_interval;
	s->offset = h->scan_offset;
	s->size = end - h->scan_offset;
	return true;
}

struct stk_jpeg_window stk__jpeg_window_plan(const struct stk_jpeg_scan *s, struct stk_rect r)
{
	int x0 = r.x, y0 = r.y, x1 = r.x + r.w, y1 = r.y + r.h;
	bool filters_columns = false, filters_rows = false;
	for (int i = 0; i < s->components; i++) {
		filters_columns |= s->upsample[i] == STK_JPEG_UP_H2V1 || s->upsample[i] == STK_JPEG_UP_H2V2;
		filters_rows |= s->upsample[i] == STK_JPEG_UP_H1V2 || s->upsample[i] == STK_JPEG_UP_H2V2;
	}
	/* The triangle filter also reads the next sample on each side of the samples under the window. A sample covers at most h_max times v_max pixels.
	 * Vertically, groups of v_max rows are made together, as in libjpeg. */
	if (filters_columns) {
		x0 -= s->h_max;
		x1 += s->h_max;
	}
	if (filters_rows) {
		y0 = y0 / s->v_max * s->v_max - s->v_max;
		y1 = (y1 + s->v_max - 1) / s->v_max * s->v_max + s->v_max;
	}
	x0 = x0 < 0 ? 0 : x0;
	y0 = y0 < 0 ? 0 : y0;
	x1 = x1 > s->width ? s->width : x1;
	y1 = y1 > s->height ? s->height : y1;
	int end = (y1 + s->mcu_h - 1) / s->mcu_h;
	end = (end + s->rows_together - 1) / s->rows_together * s->rows_together;
	end = end > s->mcus_y ? s->mcus_y : end;
	return (struct stk_jpeg_window){r, x0 / s->mcu_w, y0 / s->mcu_h, (x1 + s->mcu_w - 1) / s->mcu_w, end};
}

size_t stk__jpeg_memory(const struct stk_jpeg_header *h)
{
	enum {
		BLOCK = 64 * sizeof(int16_t) + sizeof(uint64_t), /* a block's coefficients, and a mask of those that are not zero */
		EDGE = 4,                                        /* number of blocks that pad a row or a column */
		ROW = 512,                                       /* number of bytes that pad a row */
		SAMPLE_ROWS = 16,
		PIXEL_ROWS = 8, /* for each component: 16 rows of samples times its vertical factor, and 8 upsampled rows */
		STATE = 256 << 10
	};
	bool scans =
		h->process == STK_JPEG_PROGRESSIVE || h->process == STK_JPEG_ARITHMETIC_PROGRESSIVE || h->scan_components < h->components;
	size_t mcus_x = (size_t)divide_up(h->width, 8 * h->h_max), mcus_y = (size_t)divide_up(h->height, 8 * h->v_max), sum = STATE;
	for (int c = 0; c < h->components; c++) {
		size_t blocks_x = mcus_x * h->component[c].h + EDGE, blocks_y = mcus_y * h->component[c].v + EDGE;
		sum += scans ? blocks_y * (blocks_x * BLOCK + ROW) : 0;
		sum += (8 * blocks_x + ROW) * SAMPLE_ROWS * h->component[c].v + ((size_t)h->width + ROW) * PIXEL_ROWS;
	}
	return sum;
}
