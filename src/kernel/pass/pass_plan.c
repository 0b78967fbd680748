/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/pass/pass_plan.h"

/* Maximum size in bytes of the intermediate values of a chunk, unless it has the minimum width. Together with the source rows that they are made from, they
 * should stay in the first-level cache. */
#define CHUNK_BYTES (20 << 10)

static int32_t round_up(int32_t x, int32_t to)
{
	return (x + to - 1) / to * to;
}

static size_t reserve(struct stk_plan *plan, size_t bytes)
{
	size_t at = plan->bytes;
	plan->bytes += (bytes + 63) & ~(size_t)63;
	return at;
}

/* Returns the maximum number of source pixels that `outputs` adjacent outputs read. */
static int32_t input_span(const struct stk_filter_axis *a, int32_t outputs)
{
	float scale = a->scale < 0 ? -a->scale : a->scale, span = scale * (float)(outputs - 1) + 3;
	return span < (float)(a->in_size - a->n) ? (int32_t)span + a->n : a->in_size;
}

static enum stk_resample_kind choose_kind(const struct stk_plan *plan, const struct stk_pass *p)
{
	const struct stk_filter_axis *x = &plan->axis[0], *y = &plan->axis[1];
	int32_t taps = x->support > y->support ? x->support : y->support;
	if (p->in_dtype != STK_UINT8 || p->resize.dtype != STK_UINT8)
		return STK_RESAMPLE_FLOAT;
	if (!x->negative && !y->negative && taps <= STK_NARROW_TAPS)
		return STK_NARROW;
	return taps <= STK_WIDE_TAPS ? STK_WIDE : STK_RESAMPLE_FLOAT;
}

static void plan_resize(struct stk_plan *plan, const struct stk_pass *p)
{
	const struct stk_filter_axis *x = &plan->axis[0], *y = &plan->axis[1];
	bool bytes = plan->kind != STK_RESAMPLE_FLOAT;
	/* Chooses the bias that compensates for lost bits (resample.h). Vertically, no product loses bits if weights are multiples of 2^-8, since pixel * 2^8
	 * times weight * 2^16 is then a multiple of 2^16; horizontally, if products of both axes' weights are multiples of 2^-8. A single weight of 1 is stored
	 * as 2^16 - 1, for which a bias of 1 compensates. */
	plan->bias[1] = (uint16_t)(y->grain <= 8 ? y->lone : y->n / 2);
	plan->bias[0] = (uint16_t)(y->grain + x->grain <= 8 ? x->lone : x->n / 2);
	size_t element = bytes ? 2 : 4, column = element * STK_BLOCK_ROWS * (size_t)p->in_c;
	int32_t outputs = round_up(plan->x.end - plan->x.begin, STK_BLOCK_ROWS);
	plan->chunk = outputs;
	while (plan->chunk > STK_BLOCK_ROWS && column * (size_t)input_span(x, plan->chunk) > CHUNK_BYTES)
		plan->chunk = round_up(plan->chunk / 2, STK_BLOCK_ROWS);
	int32_t columns = input_span(x, plan->chunk) + STK_COLUMN_GROUP;
	plan->at_first = reserve(plan, sizeof(int32_t) * (size_t)outputs);
	plan->at_weights = reserve(plan, element * (size_t)outputs * (size_t)x->n);
	plan->at_row_weights = reserve(plan, element * STK_BLOCK_ROWS * (size_t)y->n);
	plan->at_taps = reserve(plan, sizeof(float) * (size_t)(x->n > y->n ? x->n : y->n));
	plan->at_transposed = reserve(plan, column * (size_t)columns);
	if (!bytes && p->in_dtype != STK_UINT8 && p->in_dtype != STK_FLOAT) {
		plan->staged_pitch = (ptrdiff_t)columns * p->in_c;
		plan->at_staged = reserve(plan, sizeof(float) * (size_t)plan->staged_pitch * (size_t)input_span(y, STK_BLOCK_ROWS) + 64);
	}
}

void stk__plan_make(struct stk_plan *plan, const struct stk_pass *p)
{
	*plan = (struct stk_plan){.x = stk__pass_valid(p, 0), .y = stk__pass_valid(p, 1), .max_channels = p->in_c};
	for (int32_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].channels > plan->max_channels)
			plan->max_channels = p->steps[i].channels;
	if (p->sampler == STK_SAMPLE_RESIZE) {
		plan->axis[0] = stk__pass_resize_axis(p, 0);
		plan->axis[1] = stk__pass_resize_axis(p, 1);
		plan->nearest = !plan->axis[0].curve && !plan->axis[1].curve;
	}
	bool resize = p->sampler == STK_SAMPLE_RESIZE && !plan->nearest;
	plan->kind = resize ? choose_kind(plan, p) : STK_RESAMPLE_FLOAT;
	bool bytes = resize ? plan->kind != STK_RESAMPLE_FLOAT : p->sampler != STK_SAMPLE_WARP;
	if (p->in_dtype == STK_UINT8 && bytes && p->in_c <= STK_PASS_MAX_CHANNELS)
		plan->rows = STK_ROWS_U8;
	else if (stk__pass_pure_geometry(p))
		plan->rows = STK_ROWS_COPY;
	else
		plan->rows = STK_ROWS_FLOAT;

	size_t element = plan->rows == STK_ROWS_U8 ? 1 : 4;
	plan->pitch = round_up(p->w, 32) + 32;
	plan->plane = plan->pitch * STK_BLOCK_ROWS;
	if (plan->nearest) {
		plan->at_nearest[0] = reserve(plan, sizeof(int32_t) * (size_t)p->resize.out_w);
		plan->at_nearest[1] = reserve(plan, sizeof(int32_t) * (size_t)p->resize.out_h);
	}
	if (plan->rows != STK_ROWS_COPY) {
		plan->at_block = reserve(plan, element * (size_t)(plan->plane * plan->max_channels) + 64);
		plan->at_line = reserve(plan, 2 * sizeof(float) * (size_t)(plan->pitch * plan->max_channels));
	}
	if (resize && plan->x.begin < plan->x.end && plan->y.begin < plan->y.end)
		plan_resize(plan, p);
	plan->bytes = plan->bytes ? plan->bytes : 64;
}

size_t stk__pass_scratch(const struct stk_pass *p)
{
	struct stk_plan plan;
	stk__plan_make(&plan, p);
	return plan.bytes;
}
