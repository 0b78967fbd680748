/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/pass/pass_copy.h"

#include "kernel/convert/convert.h"

#include <string.h>

static void copy_element(uint8_t *to, const uint8_t *from, size_t size)
{
	switch (size) {
	case 1:
		*to = *from;
		break;
	case 2:
		memcpy(to, from, 2);
		break;
	case 4:
		memcpy(to, from, 4);
		break;
	default:
		memcpy(to, from, 8);
	}
}

/* Sets outputs [begin, end) of a row to the fill value. */
static void fill_span(const struct stk_run *run, uint8_t *row, int32_t begin, int32_t end)
{
	size_t size = stk_dtype_size((enum stk_dtype)run->p->dtype);
	for (int32_t c = 0; begin < end && c < run->p->c; c++) {
		uint64_t value;
		stk__convert(&value, (enum stk_dtype)run->p->dtype, &run->p->steps[0].value[c], STK_FLOAT, 1);
		for (int32_t x = begin; x < end; x++)
			copy_element(row + x * run->dst.pixel + c * run->dst.channel, (const uint8_t *)&value, size);
	}
}

static void copy_row(const struct stk_run *run, uint8_t *row, int32_t y)
{
	const struct stk_pass *p = run->p;
	const struct stk_plan *plan = run->plan;
	struct stk_span x = plan->x;
	ptrdiff_t size = (ptrdiff_t)stk_dtype_size((enum stk_dtype)p->dtype), pixel = size * p->c;
	const uint8_t *from = stk__run_pixel(run, run->x0, stk__run_position(run, 1, y));
	bool whole = (p->c == 1 || (run->src.channel == size && run->dst.channel == size)) && run->dst.pixel == pixel;
	if (whole && run->src.pixel == pixel && !plan->nearest && p->pre[0].step > 0) {
		memcpy(row + x.begin * pixel, from + (ptrdiff_t)(stk__run_position(run, 0, x.begin) - run->x0) * pixel,
			(size_t)((x.end - x.begin) * pixel));
		return;
	}
	bool pixels = p->c > 4 && run->src.channel == size && run->dst.channel == size;
	for (int32_t k = x.begin; k < x.end; k++) {
		const uint8_t *in = from + (ptrdiff_t)(stk__run_position(run, 0, k) - run->x0) * run->src.pixel;
		uint8_t *out = row + k * run->dst.pixel;
		if (pixels) {
			memcpy(out, in, (size_t)pixel);
			continue;
		}
		for (int32_t c = 0; c < p->c; c++)
			copy_element(out + c * run->dst.channel, in + c * run->src.channel, (size_t)size);
	}
}

void stk__run_copy(const struct stk_run *run)
{
	const struct stk_plan *plan = run->plan;
	for (int32_t y = 0; y < run->p->h; y++) {
		uint8_t *row = (uint8_t *)run->dst.data + (ptrdiff_t)y * run->dst.row;
		bool valid = y >= plan->y.begin && y < plan->y.end && plan->x.begin < plan->x.end;
		if (valid)
			copy_row(run, row, y);
		fill_span(run, row, 0, valid ? plan->x.begin : run->p->w);
		if (valid)
			fill_span(run, row, plan->x.end, run->p->w);
	}
}
