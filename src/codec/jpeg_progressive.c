/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_progressive.h"

#include "codec/jpeg_input.h"
#include "codec/jpeg_rows.h"
#include "codec/jpeg_script.h"

#include <string.h>

enum {
	AT_ONCE = 8, /* number of blocks whose bytes are put into the buffer together before they are decoded */
	PREDICTION_LIMIT = 1 << 28
};

/* The blocks of a component. Masks are stored for all blocks of the padded image down to the window's last row; coefficients only for columns x0..x1-1 of
 * rows y0..y1-1, in pairs of blocks. */
struct plane {
	int32_t width, height; /* extents in blocks, as in a scan of this component only */
	int32_t x0, x1, y0, y1;
	int32_t masks_width;
	size_t row; /* number of coefficients in a row of blocks */
	int16_t *coefficients;
	uint64_t *masks;
	_Alignas(64) uint16_t quant[STK_JPEG_TIGHT_PAIR];
};

struct progressive {
	const struct stk_jpeg_kernels *kernels;
	const struct stk_cancel *cancel;
	struct stk_jpeg_header header; /* the scan being decoded */
	const uint8_t *data;
	size_t size;
	struct stk_jpeg_scan frame;
	struct stk_jpeg_window window;
	struct stk_jpeg_rows rows;
	struct plane plane[3];
	/* the state of decoding the current scan */
	struct stk_jpeg_bits bits;
	struct stk_jpeg_band band;
	int restart_in, restart_number;
	int32_t prediction[3];
	struct stk_jpeg_block block[STK_JPEG_MAX_BLOCKS]; /* blocks of an MCU, for first DC scans */
	struct stk_jpeg_dc_table dc[3];
	struct stk_jpeg_band_table band_table;
	struct stk_jpeg_input input;
	uint8_t nowhere[64]; /* receives samples that are not needed */
};

/* ---- preparation ---- */

static int smaller(int a, int b)
{
	return a < b ? a : b;
}

/* Allocates the masks down to the window's last row, and the coefficients of the window's blocks. */
static enum stk_status make_plane(struct progressive *p, int c, struct stk_arena *scratch)
{
	struct plane *plane = &p->plane[c];
	const struct stk_jpeg_component *component = &p->frame.component[c];
	const struct stk_jpeg_window *w = &p->window;
	plane->masks_width = p->frame.mcus_x * component->h;
	plane->y1 = w->mcu_y1 * component->v;
	if (c < p->rows.planes) {
		plane->x0 = w->mcu_x0 * component->h;
		plane->x1 = w->mcu_x1 * component->h;
		plane->y0 = w->mcu_y0 * component->v;
	} else {
		plane->y0 = plane->y1; /* the output does not need this component's values */
	}
	plane->row = stk__jpeg_block_at(plane->x1 - plane->x0 + 1) / STK_JPEG_TIGHT_PAIR * STK_JPEG_TIGHT_PAIR;
	size_t masks = (size_t)plane->masks_width * (size_t)plane->y1 * sizeof *plane->masks;
	size_t coefficients = plane->row * (size_t)(plane->y1 - plane->y0) * sizeof *plane->coefficients;
	plane->masks = stk__arena_take(scratch, masks);
	plane->coefficients = stk__arena_take(scratch, coefficients);
	if (!plane->masks || !plane->coefficients)
		return STK_NO_MEMORY;
	memset(plane->masks, 0, masks);
	memset(plane->coefficients, 0, coefficients);
	return STK_OK;
}

/* Sets a component's extents and quantisation table. Returns false if another component has the same id, or if the table is not defined before the first
 * scan. (libjpeg uses the table that is defined when a component's first scan begins.) */
static bool describe_plane(struct plane *plane, const struct stk_jpeg_kernels *k, const struct stk_jpeg_header *h, int c)
{
	const struct stk_jpeg_component *component = &h->component[c];
	if (component->quant >= STK_JPEG_TABLES || !(h->tables.quant_mask >> component->quant & 1))
		return false;
	for (int i = 0; i < c; i++)
		if (h->component[i].id == component->id)
			return false;
	*plane = (struct plane){.width = (component->width + 7) / 8, .height = (component->height + 7) / 8};
	const uint16_t *quant = h->tables.quant[component->quant];
	for (int i = 0; i < 64; i++)
		plane->quant[k->position_of[i]] = plane->quant[k->position_of[i] + 8] = quant[i];
	return true;
}

/* Returns which MCUs the pixels need. If only luma is decoded, for gray, no neighbours are needed to upsample chroma. */
static struct stk_jpeg_window plan_window(const struct stk_jpeg_scan *frame, int planes, struct stk_rect pixels)
{
	struct stk_jpeg_scan output_scan = *frame;
	output_scan.components = planes;
	return stk__jpeg_window_plan(&output_scan, pixels);
}

static enum stk_status prepare(struct progressive *p, int max_scans, const struct stk_decode *rq, struct stk_arena *scratch)
{
	if (!stk__jpeg_frame_plan(&p->header, &p->frame) || !stk__jpeg_rows_supports(&p->frame, rq->type, &p->rows.planes))
		return STK_UNSUPPORTED;
	for (int c = 0; c < p->frame.components; c++)
		if (!describe_plane(&p->plane[c], p->kernels, &p->header, c))
			return STK_UNSUPPORTED;
	struct stk_jpeg_header walk = p->header;
	if (!stk__jpeg_script_sound(p->data, p->size, &walk, max_scans))
		return STK_UNSUPPORTED;
	stk__jpeg_scan_scale(&p->frame, rq->denom > 1 ? rq->denom : 1);
	p->window = plan_window(&p->frame, p->rows.planes, rq->window);
	p->rows.kernels = p->kernels;
	p->rows.scan = &p->frame;
	p->rows.window = &p->window;
	p->rows.dst = &rq->dst;
	p->rows.type = rq->type;
	for (int c = 0; c < p->frame.components; c++) {
		enum stk_status status = make_plane(p, c, scratch);
		if (status)
			return status;
	}
	return stk__jpeg_rows_begin(&p->rows, scratch) ? STK_OK : STK_NO_MEMORY;
}

/* ---- input ---- */

static void begin_input(struct progressive *p)
{
	size_t at = p->header.scan_offset;
	p->restart_in = p->header.restart_interval;
	p->restart_number = 0;
	p->band.end_run = 0;
	memset(p->prediction, 0, sizeof p->prediction);
	stk__jpeg_input_begin(&p->input, p->kernels, p->data + at, p->size - at, &p->bits);
}

/* Prepares the input for up to `count` MCUs: skips a restart marker if one is due, and provides bytes. Returns the number of MCUs that may be decoded before
 * the next call, or 0 if the file is damaged. */
static int begin_mcus(struct progressive *p, int count)
{
	int interval = p->header.restart_interval;
	if (interval) {
		if (p->restart_in == 0) {
			if (!stk__jpeg_input_restart(&p->input, &p->bits, p->restart_number))
				return 0;
			p->restart_number = (p->restart_number + 1) & 7;
			p->restart_in = interval;
			p->band.end_run = 0;
			memset(p->prediction, 0, sizeof p->prediction);
		}
		count = smaller(count, p->restart_in);
		p->restart_in -= count;
	}
	return stk__jpeg_input_ready(&p->input, &p->bits) ? count : 0;
}

/* ---- AC ---- */

static bool decode_blocks(struct progressive *p, uint64_t *masks, int16_t *coefficients, int from, int to)
{
	bool refinement = p->header.approx_high > 0;
	while (from < to) {
		int count = begin_mcus(p, smaller(to - from, AT_ONCE));
		if (!count || (refinement ? p->kernels->band_refine : p->kernels->band_first)(
				      &p->bits, &p->band, masks, coefficients, from, from + count))
			return false;
		from += count;
	}
	return true;
}

static bool decode_band(struct progressive *p)
{
	const struct stk_jpeg_header *h = &p->header;
	int c = h->scan_order[0], table = h->component[c].ac;
	if (table >= STK_JPEG_TABLES || !(h->tables.ac_mask >> table & 1) || !stk__jpeg_huffman_valid(&h->tables.ac[table], false))
		return false;
	stk__jpeg_band_table_build(&p->band_table, &h->tables.ac[table], h->approx_high > 0);
	p->band = (struct stk_jpeg_band){&p->band_table, h->spectral_start, h->spectral_end, h->approx_low, 0};
	begin_input(p);
	struct plane *plane = &p->plane[c];
	int rows = smaller(plane->y1, plane->height), x0 = smaller(plane->x0, plane->width), x1 = smaller(plane->x1, plane->width);
	for (int y = 0; y < rows; y++) {
		if (stk__cancelled(p->cancel))
			return false;
		uint64_t *masks = plane->masks + (size_t)y * (size_t)plane->masks_width;
		int16_t *coefficients = y < plane->y0 ? NULL : plane->coefficients + (size_t)(y - plane->y0) * plane->row;
		if (!decode_blocks(p, masks, NULL, 0, x0) || !decode_blocks(p, masks + x0, coefficients, 0, x1 - x0) ||
			!decode_blocks(p, masks, NULL, x1, plane->width))
			return false;
	}
	return stk__jpeg_input_sound(&p->input, &p->bits);
}

/* ---- DC ---- */

/* The blocks of an MCU of a DC scan: one if the scan has a single component, otherwise those blocks of the frame's MCU that belong to the scan's components. */
struct dc_scan {
	int count, columns, rows;
	struct {
		struct plane *plane;
		int component, x, y, step_x, step_y;
	} block[STK_JPEG_MAX_BLOCKS];
};

static void add_block(struct dc_scan *s, struct progressive *p, int c, int x, int y, bool single)
{
	const struct stk_jpeg_component *component = &p->frame.component[c];
	int i = s->count++;
	s->block[i].plane = &p->plane[c];
	s->block[i].component = c;
	s->block[i].x = x;
	s->block[i].y = y;
	s->block[i].step_x = single ? 1 : component->h;
	s->block[i].step_y = single ? 1 : component->v;
	p->block[i] = (struct stk_jpeg_block){.dc = &p->dc[c], .prediction = &p->prediction[c]};
}

static bool plan_dc(struct progressive *p, struct dc_scan *s)
{
	const struct stk_jpeg_header *h = &p->header;
	const struct stk_jpeg_scan *frame = &p->frame;
	bool single = h->scan_components == 1;
	s->count = 0;
	for (int i = 0; i < h->scan_components; i++) {
		int c = h->scan_order[i], table = h->component[c].dc;
		for (int b = 0; b < frame->blocks; b++)
			if (frame->block_component[b] == c && (!single || frame->block_x[b] + frame->block_y[b] == 0))
				add_block(s, p, c, frame->block_x[b], frame->block_y[b], single);
		if (h->approx_high)
			continue;
		if (table >= STK_JPEG_TABLES || !(h->tables.dc_mask >> table & 1) || !stk__jpeg_dc_usable(&h->tables.dc[table]))
			return false;
		stk__jpeg_dc_table_build(&p->dc[c], &h->tables.dc[table]);
	}
	const struct plane *only = &p->plane[h->scan_order[0]];
	s->columns = single ? only->width : frame->mcus_x;
	s->rows = single ? smaller(only->y1, only->height) : p->window.mcu_y1;
	return true;
}

/* Returns the address of the DC coefficient of block i of MCU (x, y), or NULL if it is not stored. */
static int16_t *stored_dc(const struct dc_scan *s, int i, int x, int y)
{
	const struct plane *plane = s->block[i].plane;
	x = x * s->block[i].step_x + s->block[i].x;
	y = y * s->block[i].step_y + s->block[i].y;
	if (x < plane->x0 || x >= plane->x1 || y < plane->y0 || y >= plane->y1)
		return NULL;
	return plane->coefficients + (size_t)(y - plane->y0) * plane->row + stk__jpeg_block_at(x - plane->x0);
}

static bool first_dc(struct progressive *p, const struct dc_scan *s, int x, int y)
{
	for (int i = 0; i < s->count; i++) {
		if (p->kernels->dc_first(&p->bits, &p->block[i], 1))
			return false;
		int16_t *dc = stored_dc(s, i, x, y);
		if (dc)
			*dc = (int16_t)((uint32_t)p->prediction[s->block[i].component] << p->header.approx_low);
	}
	return true;
}

static void refine_dc(struct progressive *p, const struct dc_scan *s, int x, int y)
{
	uint32_t bits = p->kernels->take_bits(&p->bits, s->count);
	for (int i = 0; i < s->count; i++) {
		int16_t *dc = stored_dc(s, i, x, y);
		if (dc)
			*dc = (int16_t)(*dc | (int)(bits >> (s->count - 1 - i) & 1) << p->header.approx_low);
	}
}

/* Returns false if a DC prediction exceeds the limit, above which libjpeg refuses the file. Undamaged files do not come close to it. */
static bool predictions_sound(const struct progressive *p)
{
	for (int c = 0; c < 3; c++)
		if (p->prediction[c] > PREDICTION_LIMIT || p->prediction[c] < -PREDICTION_LIMIT)
			return false;
	return true;
}

static bool decode_dc(struct progressive *p)
{
	struct dc_scan s;
	if (!plan_dc(p, &s))
		return false;
	begin_input(p);
	for (int y = 0; y < s.rows; y++) {
		if (stk__cancelled(p->cancel))
			return false;
		for (int x = 0; x < s.columns; x++) {
			if (!begin_mcus(p, 1))
				return false;
			if (p->header.approx_high)
				refine_dc(p, &s, x, y);
			else if (!first_dc(p, &s, x, y))
				return false;
		}
		if (!predictions_sound(p))
			return false;
	}
	return stk__jpeg_input_sound(&p->input, &p->bits);
}

/* ---- all scans ---- */

static bool decode_scans(struct progressive *p)
{
	enum stk_jpeg_next next;
	do {
		if (!(p->header.spectral_start ? decode_band(p) : decode_dc(p)))
			return false;
		size_t at = (size_t)(p->input.next - p->data);
		next = stk__jpeg_header_next(p->data, p->size, &p->header, &at);
	} while (next == STK_JPEG_NEXT_SCAN);
	return next == STK_JPEG_NEXT_END;
}

/* ---- samples ---- */

/* Transforms two neighbouring blocks to samples. nonzero: a mask of the coefficients that may be nonzero in at least one of them. */
static void transform_pair(const struct progressive *p, const struct plane *plane, int size, const int16_t *pair, uint64_t nonzero,
	uint8_t *const to[2], const ptrdiff_t stride[2])
{
	const struct stk_jpeg_kernels *k = p->kernels;
	if (size == 8)
		(nonzero ? k->idct : k->idct_flat)(pair, plane->quant, to, stride);
	else
		k->idct_small[size / 2](pair, plane->quant, to, stride);
}

/* Transforms a row of a component's blocks. to: address for the samples of the window's first block. */
static void transform_row(struct progressive *p, int c, int y, uint8_t *to)
{
	const struct plane *plane = &p->plane[c];
	int size = p->frame.block_size[c], count = plane->x1 - plane->x0;
	const int16_t *pair = plane->coefficients + (size_t)(y - plane->y0) * plane->row;
	const uint64_t *masks = plane->masks + (size_t)y * (size_t)plane->masks_width + plane->x0;
	ptrdiff_t stride = p->rows.plane[c].stride;
	for (int i = 0; i < count; i += 2, pair += STK_JPEG_TIGHT_PAIR, to += 2 * size) {
		bool has_second = i + 1 < count;
		transform_pair(p, plane, size, pair, masks[i] | (has_second ? masks[i + 1] : 0),
			(uint8_t *[2]){to, has_second ? to + size : p->nowhere}, (ptrdiff_t[2]){stride, has_second ? stride : 8});
	}
}

static void transform(struct progressive *p)
{
	for (int y = p->window.mcu_y0; y < p->window.mcu_y1 && !stk__cancelled(p->cancel); y++) {
		for (int b = 0; b < p->frame.blocks; b++) {
			int c = p->frame.block_component[b];
			if (c < p->rows.planes && p->frame.block_x[b] == 0)
				transform_row(
					p, c, y * p->frame.component[c].v + p->frame.block_y[b], stk__jpeg_rows_block(&p->rows, b, y));
		}
		stk__jpeg_rows_finish(&p->rows, y);
	}
}

enum stk_status stk__jpeg_progressive_decode(const struct stk_jpeg_kernels *kernels, const struct stk_jpeg_header *h, int max_scans,
	const struct stk_decode *request, struct stk_arena *scratch)
{
	struct progressive *p = stk__arena_take(scratch, sizeof *p);
	if (!p)
		return STK_NO_MEMORY;
	p->kernels = kernels;
	p->cancel = request->cancel;
	p->header = *h;
	p->data = request->data;
	p->size = request->size;
	enum stk_status status = prepare(p, max_scans, request, scratch);
	if (status)
		return status;
	if (!decode_scans(p))
		return STK_CORRUPT;
	transform(p);
	return STK_OK;
}
