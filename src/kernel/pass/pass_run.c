/* SPDX-License-Identifier: Apache-2.0
 * The run loop of a pass. Blocks of up to 16 rows are sampled, changed by steps and stored while they are in the first-level cache. */
#include "base/cancel.h"
#include "base/cpu.h"
#include "kernel/convert/convert.h"
#include "kernel/pass/pass_copy.h"
#include "kernel/pass/pass_plan.h"

#include <string.h>

/* How finished rows are written to the output. */
enum finish { FINISH_BYTES, FINISH_AFFINE, FINISH_STEPS };

struct stages {
	enum finish finish;
	int32_t leading_fill; /* 1 if the first step is the fill, otherwise 0 */
	bool fills_bytes; /* the first step is the fill, and it is applied to the bytes of the block (fill_block, fill_behind), not by run_step */
	struct stk_affine affine[STK_PASS_MAX_CHANNELS];
	bool planar, interleaved; /* the layout of the output, if it is one of these */
};

static void *block_row(const struct stk_run *run, int32_t c, int32_t r)
{
	size_t element = run->plan->rows == STK_ROWS_U8 ? 1 : sizeof(float);
	return run->scratch + run->plan->at_block + (size_t)(c * run->plan->plane + r * run->plan->pitch) * element;
}

static float *line(const struct stk_run *run, int32_t c)
{
	return (float *)(void *)(run->scratch + run->plan->at_line) + c * run->plan->pitch;
}

static uint8_t *dst_row(const struct stk_run *run, int32_t y)
{
	return (uint8_t *)run->dst.data + (ptrdiff_t)y * run->dst.row;
}

static int32_t map(const struct stk_axis_map *m, int32_t k)
{
	return m->first + m->step * k;
}

static void sample_plain_u8(const struct stk_run *run, int32_t y, int32_t rows)
{
	const struct stk_pass *p = run->p;
	struct stk_span x = run->plan->x;
	int32_t left = stk__run_position(run, 0, p->pre[0].step > 0 ? x.begin : x.end - 1);
	struct stk_image view = {(void *)(uintptr_t)stk__run_pixel(run, left, stk__run_position(run, 1, y)), STK_UINT8, x.end - x.begin,
		rows, p->in_c, p->pre[1].step * run->src.row, run->src.pixel, run->src.channel};
	run->k->rows.load_u8((uint8_t *)block_row(run, 0, 0) + x.begin, run->plan->pitch, run->plan->plane, &view, p->pre[0].step < 0);
}

static void sample_plain(const struct stk_run *run, int32_t y, int32_t rows)
{
	const struct stk_pass *p = run->p;
	struct stk_span x = run->plan->x;
	for (int32_t r = 0; r < rows; r++) {
		int32_t sy = stk__run_position(run, 1, y + r);
		for (int32_t c = 0; c < p->in_c; c++) {
			const uint8_t *from = stk__run_pixel(run, run->x0, sy) + c * run->src.channel;
			if (run->plan->rows == STK_ROWS_U8) { /* a nearest resize; other cases with uint8 rows use sample_plain_u8 */
				uint8_t *to = block_row(run, c, r);
				for (int32_t k = x.begin; k < x.end; k++)
					to[k] = from[(ptrdiff_t)(stk__run_position(run, 0, k) - run->x0) * run->src.pixel];
			} else if (run->plan->nearest) {
				float *to = block_row(run, c, r);
				for (int32_t k = x.begin; k < x.end; k++)
					stk__row_load(to + k, from + (ptrdiff_t)(stk__run_position(run, 0, k) - run->x0) * run->src.pixel,
						0, 1, (enum stk_dtype)p->in_dtype);
			} else {
				stk__row_load((float *)block_row(run, c, r) + x.begin,
					from + (ptrdiff_t)(stk__run_position(run, 0, x.begin) - run->x0) * run->src.pixel,
					p->pre[0].step * run->src.pixel, x.end - x.begin, (enum stk_dtype)p->in_dtype);
			}
		}
	}
}

static void sample_warp(const struct stk_run *run, int32_t y, int32_t rows)
{
	const struct stk_pass *p = run->p;
	struct stk_span x = run->plan->x;
	const float *m = p->warp.m;
	struct stk_warp_row w = {.src = run->src,
		.n = x.end - x.begin,
		.linear = p->warp.interp != STK_INTERP_NN,
		.clamp = p->warp.clamp,
		.fill = p->warp.fill,
		.plane = run->plan->plane};
	/* A warp reads positions in the sampler's input. Windows and mirrors before the sampler become an address and strides of the source. */
	w.src.data = (void *)(uintptr_t)stk__run_pixel(run, p->pre[0].first, p->pre[1].first);
	w.src.row *= p->pre[1].step;
	w.src.pixel *= p->pre[0].step;
	w.src.width = p->mid_w;
	w.src.height = p->mid_h;
	w.first = map(&p->post[0], x.begin);
	w.step = p->post[0].step;
	memcpy(w.m, m, sizeof w.m);
	for (int32_t r = 0; r < rows; r++) {
		w.y = map(&p->post[1], y + r);
		w.dst = (float *)block_row(run, 0, r) + x.begin;
		run->k->warp.row(&w);
		for (int32_t c = 0; c < p->in_c; c++)
			run->k->rows.round(w.dst + c * w.plane, w.n, (enum stk_dtype)p->warp.dtype);
	}
}

/* Samples output rows y .. y + rows - 1, all of which come from the source, into the block. */
static void sample(const struct stk_run *run, int32_t y, int32_t rows)
{
	const struct stk_pass *p = run->p;
	if (p->sampler == STK_SAMPLE_WARP) {
		sample_warp(run, y, rows);
	} else if (p->sampler == STK_SAMPLE_NONE || run->plan->nearest) {
		/* no rounding is needed: a nearest resize copies values of the source, all of which float32 can hold */
		if (run->plan->rows == STK_ROWS_U8 && !run->plan->nearest)
			sample_plain_u8(run, y, rows);
		else
			sample_plain(run, y, rows);
	} else {
		stk__run_resize_rows(run, y, rows);
		if (run->plan->rows == STK_ROWS_FLOAT && p->resize.dtype != STK_FLOAT)
			for (int32_t c = 0; c < p->in_c; c++)
				for (int32_t r = 0; r < rows; r++)
					run->k->rows.round((float *)block_row(run, c, r) + run->plan->x.begin,
						run->plan->x.end - run->plan->x.begin, (enum stk_dtype)p->resize.dtype);
	}
}

static uint8_t fill_byte(float value)
{
	return value > 0 ? (value < 255 ? (uint8_t)(value + 0.5f) : 255) : 0;
}

/* Fills the whole block of rows with the fill value. Samples later overwrite only the columns that come from the source, so the others keep the fill value from
 * one block to the next. With small images, filling short margins for each block would take most of the time. */
static void fill_block(const struct stk_run *run)
{
	for (int32_t c = 0; c < run->p->in_c; c++)
		memset(block_row(run, c, 0), fill_byte(run->p->steps[0].value[c]), (size_t)run->plan->plane);
}

/* Restores the fill value where a resize has written past its last column. */
static void fill_behind(const struct stk_run *run, int32_t rows)
{
	int32_t end = run->plan->x.end;
	for (int32_t c = 0; c < run->p->in_c; c++)
		for (int32_t r = 0; r < rows; r++)
			memset((uint8_t *)block_row(run, c, r) + end, fill_byte(run->p->steps[0].value[c]), (size_t)(run->p->w - end));
}

static void clamp(float *row, int32_t n, float lo, float hi)
{
	for (int32_t i = 0; i < n; i++) {
		float x = row[i] > lo ? row[i] : lo;
		row[i] = x < hi ? x : hi;
	}
}

/* Runs one step over a row. ch: the row's channels; *channels: their number, which the step may change; *x: the range of positions that have values, which the
 * fill step extends to the whole row. */
static void run_step(const struct stk_run *run, const struct stk_step *step, float *const *ch, int32_t *channels, struct stk_span *x)
{
	const struct stk_row_kernels *k = &run->k->rows;
	int32_t n = x->end - x->begin, at = x->begin;
	if (step->kind == STK_STEP_FILL) {
		for (int32_t c = 0; c < *channels; c++) {
			for (int32_t i = 0; i < x->begin; i++)
				ch[c][i] = step->value[c];
			for (int32_t i = x->end; i < run->p->w; i++)
				ch[c][i] = step->value[c];
		}
		*x = (struct stk_span){0, run->p->w};
		return;
	}
	if (n <= 0) { /* a row outside of the source, before the fill step */
		*channels = step->channels;
		return;
	}
	switch (step->kind) {
	case STK_STEP_AFFINE:
		for (int32_t c = 0; c < step->channels; c++)
			k->affine(ch[c] + at, n, step->scale[c], step->bias[c]);
		break;
	case STK_STEP_MATRIX:
		k->matrix(ch[0] + at, ch[1] + at, ch[2] + at, n, step->m, step->b);
		break;
	case STK_STEP_GRAY:
		k->gray(ch[0] + at, ch[1] + at, ch[2] + at, n, step->scale);
		break;
	case STK_STEP_CHANNELS:
		for (int32_t c = *channels; c < step->channels; c++)
			for (int32_t i = x->begin; i < x->end; i++)
				ch[c][i] = step->value[c];
		break;
	case STK_STEP_CLAMP:
		for (int32_t c = 0; c < step->channels; c++)
			clamp(ch[c] + at, n, step->value[0], step->value[1]);
		break;
	default: /* a cast, which only rounds */
		break;
	}
	*channels = step->channels;
	for (int32_t c = 0; c < *channels; c++)
		k->round(ch[c] + at, n, (enum stk_dtype)step->dtype);
}

/* Stores row y of p->c float32 channels ch, whose values are already rounded to the output's type. */
static void store_row(const struct stk_run *run, const struct stages *s, int32_t y, float *const *ch)
{
	const struct stk_pass *p = run->p;
	enum stk_dtype dtype = (enum stk_dtype)p->dtype;
	size_t size = stk_dtype_size(dtype);
	uint8_t *to = dst_row(run, y);
	if (s->planar) {
		for (int32_t c = 0; c < p->c; c++)
			run->k->rows.store(to + c * run->dst.channel, ch[c], p->w, dtype);
		return;
	}
	uint8_t *cast = (uint8_t *)line(run, run->plan->max_channels); /* the second half of the lines' memory */
	ptrdiff_t pitch = run->plan->pitch;
	for (int32_t c = 0; c < p->c; c++)
		run->k->rows.store(cast + (size_t)(c * pitch) * size, ch[c], p->w, dtype);
	if (s->interleaved) {
		run->k->rows.interleave(to, cast, pitch, p->w, p->c, size);
		return;
	}
	for (int32_t c = 0; c < p->c; c++)
		for (int32_t x = 0; x < p->w; x++)
			memcpy(to + c * run->dst.channel + x * run->dst.pixel, cast + (size_t)(c * pitch + x) * size, size);
}

static void finish_steps(const struct stk_run *run, const struct stages *s, int32_t y, int32_t rows, struct stk_span x)
{
	const struct stk_pass *p = run->p;
	for (int32_t r = 0; r < rows; r++) {
		float *ch[STK_PASS_MAX_CHANNELS];
		struct stk_span valid = x;
		int32_t channels = p->in_c;
		for (int32_t c = 0; c < run->plan->max_channels; c++) {
			if (run->plan->rows == STK_ROWS_FLOAT) {
				ch[c] = block_row(run, c, r);
				continue;
			}
			ch[c] = line(run, c);
			if (c < channels)
				run->k->rows.widen_u8(ch[c] + x.begin, (const uint8_t *)block_row(run, c, r) + x.begin, x.end - x.begin);
		}
		for (int32_t i = 0; i < p->n_steps; i++)
			run_step(run, &p->steps[i], ch, &channels, &valid);
		store_row(run, s, y + r, ch);
	}
}

static void finish_bytes(const struct stk_run *run, const struct stages *s, int32_t y, int32_t rows)
{
	const struct stk_pass *p = run->p;
	for (int32_t r = 0; r < rows; r++) {
		uint8_t *to = dst_row(run, y + r);
		if (s->interleaved)
			run->k->rows.interleave(to, block_row(run, 0, r), run->plan->plane, p->w, p->c, 1);
		else
			for (int32_t c = 0; c < p->c; c++) {
				const uint8_t *from = block_row(run, c, r);
				if (s->planar)
					memcpy(to + c * run->dst.channel, from, (size_t)p->w);
				else
					for (int32_t x = 0; x < p->w; x++)
						to[c * run->dst.channel + x * run->dst.pixel] = from[x];
			}
	}
}

static void finish_affine(const struct stk_run *run, const struct stages *s, int32_t y, int32_t rows)
{
	const struct stk_pass *p = run->p;
	int kernel = p->dtype == STK_FLOAT ? 0 : p->dtype == STK_FLOAT16 ? 1 : p->dtype == STK_BFLOAT16 ? 2 : 3;
	uint8_t *to = dst_row(run, y);
	if (s->planar) {
		for (int32_t c = 0; c < p->c; c++)
			run->k->rows.affine_u8[kernel](to + c * run->dst.channel, run->dst.row, block_row(run, c, 0), run->plan->pitch,
				p->w, rows, &s->affine[c], p->stream);
		return;
	}
	uint8_t *pixels = (uint8_t *)line(run, 0);
	for (int32_t r = 0; r < rows; r++, to += run->dst.row) {
		run->k->rows.interleave(pixels, block_row(run, 0, r), run->plan->plane, p->w, p->c, 1);
		run->k->rows.affine_u8[kernel](to, 0, pixels, 0, p->w * p->c, 1, &s->affine[0], false);
	}
}

/* Runs the steps on the rows in the block and stores them as output rows y .. y + rows - 1. x: the range of columns that come from the source; {0, 0} if none
 * do. */
static void finish(const struct stk_run *run, const struct stages *s, int32_t y, int32_t rows, struct stk_span x)
{
	if (s->finish == FINISH_STEPS) {
		finish_steps(run, s, y, rows, x);
		return;
	}
	if (s->finish == FINISH_BYTES)
		finish_bytes(run, s, y, rows);
	else
		finish_affine(run, s, y, rows);
}

static void plan_stages(const struct stk_run *run, struct stages *s)
{
	const struct stk_pass *p = run->p;
	ptrdiff_t size = (ptrdiff_t)stk_dtype_size((enum stk_dtype)p->dtype);
	s->interleaved = (run->dst.channel == size || p->c == 1) && run->dst.pixel == size * p->c;
	s->planar = run->dst.pixel == size;
	s->finish = FINISH_STEPS;
	s->leading_fill = p->n_steps > 0 && p->steps[0].kind == STK_STEP_FILL;
	s->fills_bytes = false;
	if (run->plan->rows != STK_ROWS_U8)
		return;
	int32_t rest = p->n_steps - s->leading_fill;
	const struct stk_step *step = &p->steps[s->leading_fill];
	if (rest == 0 && p->dtype == STK_UINT8) {
		s->finish = FINISH_BYTES;
	} else if (rest == 1 && step->kind == STK_STEP_AFFINE &&
		   (p->dtype == STK_FLOAT || p->dtype == STK_FLOAT16 || p->dtype == STK_BFLOAT16 || p->dtype == STK_UINT8) &&
		   (s->planar || (s->interleaved && STK_AFFINE_PERIOD % p->c == 0))) {
		s->finish = FINISH_AFFINE;
		for (int32_t c = 0; c < (s->planar ? p->c : 1); c++)
			for (int k = 0; k < STK_AFFINE_PERIOD; k++) {
				int32_t from = s->planar ? c : k % p->c;
				s->affine[c].scale[k] = step->scale[from];
				s->affine[c].bias[k] = step->bias[from];
			}
	}
	s->fills_bytes = s->leading_fill && s->finish != FINISH_STEPS;
}

/* Writes the hole's values to the output: the hole's first row element by element, then copies of this row. */
static void make_hole(const struct stk_run *run)
{
	const struct stk_pass *p = run->p;
	const struct stk_rect at = p->hole.at;
	const struct stk_image *dst = &run->dst;
	ptrdiff_t size = (ptrdiff_t)stk_dtype_size((enum stk_dtype)p->dtype);
	bool interleaved = dst->pixel == size * p->c && (dst->channel == size || p->c == 1);
	uint8_t *first = dst_row(run, at.y) + at.x * dst->pixel;
	for (int32_t c = 0; c < p->c; c++) {
		uint8_t element[8];
		stk__convert(element, (enum stk_dtype)p->dtype, &p->hole.value[c], STK_FLOAT, 1);
		for (int32_t x = 0; x < at.w; x++)
			memcpy(first + c * dst->channel + x * dst->pixel, element, (size_t)size);
	}
	for (int32_t y = 1; y < at.h; y++) {
		uint8_t *to = first + y * dst->row;
		if (interleaved) {
			memcpy(to, first, (size_t)(at.w * dst->pixel));
			continue;
		}
		for (int32_t c = 0; c < p->c; c++) {
			ptrdiff_t channel = c * dst->channel;
			if (dst->pixel == size)
				memcpy(to + channel, first + channel, (size_t)(at.w * size));
			else
				for (int32_t x = 0; x < at.w; x++)
					memcpy(to + channel + x * dst->pixel, first + channel + x * dst->pixel, (size_t)size);
		}
	}
}

static int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* Makes all rows of the output, in blocks of up to 16 rows. */
static void run_blocks(struct stk_run *run, struct stk_plan *plan)
{
	const struct stk_pass *p = run->p;
	struct stages stages;
	plan_stages(run, &stages);
	if (plan->x.begin == plan->x.end || plan->y.begin == plan->y.end)
		plan->x = plan->y = (struct stk_span){0, 0};
	else if (p->sampler == STK_SAMPLE_RESIZE && !plan->nearest)
		stk__run_resize_begin(run);
	struct stk_span none = {0, 0};
	if (stages.fills_bytes)
		fill_block(run);
	for (int32_t y = 0; y < plan->y.begin && !stk__cancelled(p->cancel); y += STK_BLOCK_ROWS)
		finish(run, &stages, y, smaller(plan->y.begin - y, STK_BLOCK_ROWS), none);
	for (int32_t y = plan->y.begin; y < plan->y.end && !stk__cancelled(p->cancel); y += STK_BLOCK_ROWS) {
		int32_t rows = smaller(plan->y.end - y, STK_BLOCK_ROWS);
		sample(run, y, rows);
		if (stages.fills_bytes && p->sampler)
			fill_behind(run, rows);
		finish(run, &stages, y, rows, plan->x);
	}
	if (stages.fills_bytes && plan->y.end < p->h)
		fill_block(run);
	for (int32_t y = plan->y.end; y < p->h && !stk__cancelled(p->cancel); y += STK_BLOCK_ROWS)
		finish(run, &stages, y, smaller(p->h - y, STK_BLOCK_ROWS), none);
}

void stk__pass_run(const struct stk_pass *p, const struct stk_pass_kernels *k, const struct stk_image *src, int32_t x0, int32_t y0,
	const struct stk_image *dst, void *scratch)
{
	if (p->w == 0 || p->h == 0)
		return; /* an empty window has no pixels */
	struct stk_plan plan;
	stk__plan_make(&plan, p);
	struct stk_run run = {p, &plan, k, *src, x0, y0, *dst, scratch};
	for (int axis = 0; plan.nearest && axis < 2; axis++)
		stk__filter_nearest(&plan.axis[axis], axis == 1, axis ? p->resize.out_h : p->resize.out_w,
			(int32_t *)(void *)(run.scratch + plan.at_nearest[axis]));
	if (plan.rows == STK_ROWS_COPY)
		stk__run_copy(&run);
	else
		run_blocks(&run, &plan);
	if (p->has_hole && !stk__cancelled(p->cancel))
		make_hole(&run);
}
