/* SPDX-License-Identifier: Apache-2.0
 * coord_flip: mirrors points, as flip mirrors images. */
#include "kernel/points/points.h"
#include "op/dims.h"

#include <string.h>

struct coord_flip {
	int64_t flip[3];
	float center[3];
	const char *layout;
};

#define FLIP(axis, letter, dflt, text)                                                                                                     \
	{                                                                                                                                  \
		.name = "flip_" letter, .type = STK_ARG_INT, .flags = STK_PER_SAMPLE,                                                      \
		.offset = offsetof(struct coord_flip, flip) + (axis) * sizeof(int64_t), .fallback = dflt, .min = -HUGE_VAL,                \
		.max = HUGE_VAL, .doc = text                                                                                               \
	}
#define CENTER(axis, letter)                                                                                                               \
	{                                                                                                                                  \
		.name = "center_" letter, .type = STK_ARG_FLOAT, .flags = STK_PER_SAMPLE,                                                  \
		.offset = offsetof(struct coord_flip, center) + (axis) * sizeof(float), .fallback = "0.5", .min = -HUGE_VAL,               \
		.max = HUGE_VAL, .doc = "Where " letter " is mirrored, in the units of the points."                                        \
	}

static const struct stk_arg_def coord_flip_args[] = {
	FLIP(0, "x", "1", "Mirrors x, left and right; 0: not."),
	FLIP(1, "y", "0", "Mirrors y, top and bottom; 0: not."),
	FLIP(2, "z", "0", "Mirrors z, front and back; 0: not."),
	CENTER(0, "x"),
	CENTER(1, "y"),
	CENTER(2, "z"),
	STK_ARG(struct coord_flip, layout, STK_ARG_STRING, "\"\"", STK_FREE, 0,
		"Order of the components: x, y and z, each once, as in \"yx\". Default: x, xy or xyz."),
	STK_ARG_END,
};

/* Returns the axis of component k of a point: 0 for x, 1 for y, 2 for z, or -1 if the layout has no such letter at k. */
static int axis_of(const struct coord_flip *a, int64_t k)
{
	static const char order[] = "xyz";
	const char *layout = a->layout[0] ? a->layout : order;
	const char *at = k < (int64_t)strlen(layout) ? strchr(order, layout[k]) : NULL;
	return at ? (int)(at - order) : -1;
}

static enum stk_status coord_flip_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct coord_flip *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "points must be of float32, not %s; cast them", stk_dtype_name(in->dtype));
	if (in->ndim < 0)
		return STK_OK;
	int64_t components = in->ndim == 2 ? in->shape[1] : 0;
	if (in->ndim != 2 || components == 0 || components > 3)
		return stk__fail(err, STK_SHAPE, "points must be a tensor of 2 dims, number and 1 to 3 components; this one has %d dim%s%s",
			in->ndim, in->ndim == 1 ? "" : "s", in->ndim == 2 ? " and another number of components" : "");
	unsigned seen = 0;
	for (int64_t k = 0; k < components; k++)
		seen |= axis_of(a, k) < 0 ? 0 : 1u << axis_of(a, k);
	if (components > 0 && seen != (1u << components) - 1)
		return stk__fail(err, STK_INVALID, "layout \"%s\" must name %.*s for points of %lld components, each once", a->layout,
			(int)components, "xyz", (long long)components);
	return STK_OK;
}

static enum stk_status coord_flip_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct coord_flip *a = call->args;
	int32_t n = (int32_t)call->in[0].desc.shape[1];
	float matrix[3 * 4] = {0};
	for (int32_t k = 0; k < n; k++) {
		int axis = axis_of(a, k);
		matrix[k * n + k] = a->flip[axis] ? -1 : 1;
		matrix[n * n + k] = a->flip[axis] ? 2 * a->center[axis] : 0;
	}
	return stk__job_points(jobs, &(struct stk_job_points){n, n, false}, matrix, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_coord_flip = {
	.name = "coord_flip",
	.doc = "Mirrors points about a centre.\n\n"
	       "The input is float32, one point of 1 to 3 components a row; so is the output. A coordinate c becomes 2 center - c.",
	.inputs = {1, 1},
	.args = coord_flip_args,
	.args_size = sizeof(struct coord_flip),
	.infer = coord_flip_infer,
	.lower_jobs = coord_flip_lower_jobs,
};
