/* SPDX-License-Identifier: Apache-2.0
 * Resizes in the run loop of a pass: makes the tables of taps, then blocks of rows, a chunk of columns at a time. */
#include "kernel/pass/pass_plan.h"

static int32_t map(const struct stk_axis_map *m, int32_t k)
{
	return m->first + m->step * k;
}

/* Stores the weights of output position k as entry `index` of the table `weights`. Returns the source position of the first tap; each further tap is pre.step
 * positions after the previous one. */
static int32_t make_taps(const struct stk_run *run, int axis, int32_t k, void *weights, int32_t index)
{
	const struct stk_filter_axis *a = &run->plan->axis[axis];
	int32_t output = map(&run->p->post[axis], k), first;
	ptrdiff_t at = (ptrdiff_t)index * a->n;
	float *taps = (float *)(void *)(run->scratch + run->plan->at_taps);
	switch (run->plan->kind) {
	case STK_NARROW:
		first = stk__filter_taps(a, output, taps);
		stk__filter_quantize_narrow(taps, a->n, (uint16_t *)weights + at);
		break;
	case STK_WIDE:
		first = stk__filter_taps(a, output, taps);
		stk__filter_quantize_wide(taps, a->n, (int16_t *)weights + at);
		break;
	default:
		first = stk__filter_taps(a, output, (float *)weights + at);
	}
	return map(&run->p->pre[axis], first);
}

void stk__run_resize_begin(const struct stk_run *run)
{
	const struct stk_plan *plan = run->plan;
	int32_t *first = (int32_t *)(void *)(run->scratch + plan->at_first), count = plan->x.end - plan->x.begin;
	/* Columns are made 16 at a time; those past the last one repeat it. */
	for (int32_t i = 0; i % STK_BLOCK_ROWS || i < count; i++)
		first[i] = make_taps(run, 0, plan->x.begin + (i < count ? i : count - 1), run->scratch + plan->at_weights, i);
}

/* Returns the range of source positions that the taps of several outputs cover. a, b: the first tap of the first and of the last output; n: number of taps of
 * an output; step: distance between taps, 1 or -1. */
static struct stk_span cover(int32_t a, int32_t b, int32_t n, int32_t step)
{
	int32_t low = a < b ? a : b, high = a < b ? b : a;
	return step > 0 ? (struct stk_span){low, high + n} : (struct stk_span){low - n + 1, high + 1};
}

/* Converts source pixels to interleaved float32, for types that the kernels do not read. */
static void stage(const struct stk_run *run, struct stk_span x, struct stk_span y, float *staged)
{
	int32_t channels = run->p->in_c;
	for (int32_t sy = y.begin; sy < y.end; sy++, staged += run->plan->staged_pitch)
		for (int32_t sx = x.begin; sx < x.end; sx++)
			stk__row_load(staged + (ptrdiff_t)(sx - x.begin) * channels, stk__run_pixel(run, sx, sy), run->src.channel,
				channels, (enum stk_dtype)run->p->in_dtype);
}

static void vertical(const struct stk_run *run, struct stk_span x, const int32_t rows[STK_BLOCK_ROWS])
{
	const struct stk_plan *plan = run->plan;
	int32_t n = plan->axis[1].n, step = run->p->pre[1].step;
	struct stk_vertical v = {.src = stk__run_pixel(run, x.begin, run->y0),
		.tap = step * run->src.row,
		.pixel = run->src.pixel,
		.channel = run->src.channel,
		.width = x.end - x.begin,
		.channels = run->p->in_c,
		.n = n,
		.shift = STK_FILTER_WIDE_SHIFT,
		.bias = plan->bias[1],
		.weights = run->scratch + plan->at_row_weights};
	ptrdiff_t row = run->src.row;
	int32_t top = run->y0;
	if (plan->staged_pitch) {
		struct stk_span y = cover(rows[0], rows[STK_BLOCK_ROWS - 1], n, step);
		float *staged = (float *)(void *)(run->scratch + plan->at_staged);
		stage(run, x, y, staged);
		row = plan->staged_pitch * (ptrdiff_t)sizeof(float);
		top = y.begin;
		v.src = (const uint8_t *)staged;
		v.tap = step * row;
		v.channel = sizeof(float);
		v.pixel = v.channel * run->p->in_c;
	}
	for (int r = 0; r < STK_BLOCK_ROWS; r++)
		v.row[r] = (ptrdiff_t)(rows[r] - top) * row;
	void *transposed = run->scratch + plan->at_transposed;
	if (plan->kind == STK_RESAMPLE_FLOAT && run->p->in_dtype == STK_UINT8)
		run->k->resample.vertical_u8_float(&v, transposed);
	else
		run->k->resample.vertical[plan->kind](&v, transposed);
}

void stk__run_resize_rows(const struct stk_run *run, int32_t y, int32_t rows)
{
	const struct stk_plan *plan = run->plan;
	int32_t row_first[STK_BLOCK_ROWS], count = plan->x.end - plan->x.begin, n = plan->axis[0].n, step = run->p->pre[0].step;
	for (int32_t r = 0; r < STK_BLOCK_ROWS; r++) /* a block with fewer rows repeats its last row */
		row_first[r] = make_taps(run, 1, y + (r < rows ? r : rows - 1), run->scratch + plan->at_row_weights, r);

	const int32_t *first = (const int32_t *)(const void *)(run->scratch + plan->at_first);
	size_t weight = plan->kind == STK_RESAMPLE_FLOAT ? 4 : 2, element = plan->kind == STK_RESAMPLE_FLOAT ? 4 : 1;
	struct stk_horizontal h = {.block = run->scratch + plan->at_transposed,
		.step = step,
		.n = n,
		.shift = STK_FILTER_WIDE_SHIFT,
		.bias = plan->bias[0],
		.channels = run->p->in_c,
		.row = plan->pitch,
		.plane = plan->plane};
	for (int32_t x = 0; x < count; x += plan->chunk) {
		h.count = count - x < plan->chunk ? count - x : plan->chunk;
		struct stk_span columns = cover(first[x], first[x + h.count - 1], n, step);
		vertical(run, columns, row_first);
		h.origin = columns.begin;
		h.first = first + x;
		h.weights = run->scratch + plan->at_weights + weight * (size_t)x * (size_t)n;
		h.dst = run->scratch + plan->at_block + element * (size_t)(plan->x.begin + x);
		run->k->resample.horizontal[plan->kind](&h);
	}
}
