/* SPDX-License-Identifier: Apache-2.0
 * grid_mask: blackens the squares of a grid (Chen, Liu, Zhao, Jia: "GridMask data augmentation", arXiv 2001.04086). */
#include "base/math.h"
#include "kernel/pointwise/pointwise.h"
#include "op/dims.h"

struct grid_mask {
	float angle, ratio, shift_x, shift_y;
	int64_t tile;
};

static const struct stk_arg_def grid_mask_args[] = {
	STK_ARG(struct grid_mask, angle, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE,
		"Angle by which the grid is rotated about the top left corner, counterclockwise, in radians."),
	STK_ARG(struct grid_mask, ratio, STK_ARG_FLOAT, "0.5", STK_FREE, STK_PER_SAMPLE,
		"Width of the black squares as a fraction of tile: 0 leaves the image unchanged, 1 blackens all of it."),
	STK_ARG(struct grid_mask, shift_x, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE,
		"Distance in pixels by which the rotated grid is shifted along its first direction."),
	STK_ARG(struct grid_mask, shift_y, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE, "The same along its second direction."),
	STK_ARG(struct grid_mask, tile, STK_ARG_INT, "100", (1, 0x1p31), STK_PER_SAMPLE,
		"Distance in pixels from one square to the next: their width and the space between them."),
	STK_ARG_END,
};

static enum stk_status grid_mask_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct grid_mask *a = call->args;
	struct stk_dims dims;
	call->out[0].desc = call->in[0].desc;
	if (!stk__varies(call, &a->tile) && a->tile <= 0)
		return stk__fail(err, STK_INVALID, "tile must be at least 1, not %lld", (long long)a->tile);
	return stk__dims_of_rows(&call->in[0].desc, &dims, err);
}

static enum stk_status grid_mask_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct grid_mask *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s)
		return s;
	float tile = (float)a->tile;
	struct stk_pointwise p = {.op = STK_POINTWISE_GRID,
		.grid = {.x_divisor = 1,
			.y_divisor = 1,
			.width = (int32_t)in->shape[dims.w],
			.height = (int32_t)in->shape[dims.h],
			.c = (float)stk__cos(a->angle) / tile,
			.s = (float)stk__sin(a->angle) / tile,
			.dx = a->shift_x / tile,
			.dy = a->shift_y / tile,
			.ratio = a->ratio}};
	for (int32_t d = in->ndim - 1; d > dims.h; d--) {
		p.grid.y_divisor *= in->shape[d];
		p.grid.x_divisor *= d > dims.w ? in->shape[d] : 1;
	}
	return stk__job_pointwise(jobs, &p, NULL, 0, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_grid_mask = {
	.name = "grid_mask",
	.doc = "Blackens the squares of a grid in images.\n\n"
	       "Pixels of any type become 0 if both u - floor(u) and v - floor(v) are below ratio, with\n"
	       "u = (x cos(angle) - y sin(angle) - shift_x) / tile and v = (x sin(angle) + y cos(angle) - shift_y) / tile, for whole x "
	       "and y.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = grid_mask_args,
	.args_size = sizeof(struct grid_mask),
	.infer = grid_mask_infer,
	.lower_jobs = grid_mask_lower_jobs,
};
