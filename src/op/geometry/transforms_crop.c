/* SPDX-License-Identifier: Apache-2.0
 * transforms.crop: maps one box of coordinates to another. */
#include "op/geometry/affine.h"

struct crop_map {
	struct stk_floats from_start, from_end, to_start, to_end;
	bool absolute, reverse_order;
};

#define BOUND(member, dflt, text)                                                                                                          \
	STK_ARG(struct crop_map, member, STK_ARG_FLOATS, dflt, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,                   \
		text " One value a component, or one for all.")

static const struct stk_arg_def crop_map_args[] = {
	BOUND(from_start, "[0.0]", "Lower bound of the points' coordinates."),
	BOUND(from_end, "[1.0]", "Upper bound of the points' coordinates."),
	BOUND(to_start, "[0.0]", "The coordinates to which the lower bound is mapped."),
	BOUND(to_end, "[1.0]", "The coordinates to which the upper bound is mapped."),
	STK_ARG(struct crop_map, absolute, STK_ARG_BOOL, "false", STK_FREE, 0, "Swaps a start and an end that are in the wrong order."),
	STK_AFFINE_REVERSE_ORDER(struct crop_map),
	STK_ARG_END,
};

static void order(bool swap, double *start, double *end)
{
	if (!swap || *start <= *end)
		return;
	double t = *start;
	*start = *end;
	*end = t;
}

static enum stk_status crop_map_make(const struct stk_call *call, struct stk_affine *out, struct stk_error *err)
{
	static const char *const names[] = {"from_start", "from_end", "to_start", "to_end"};
	const struct crop_map *a = call->args;
	const struct stk_floats *given[] = {&a->from_start, &a->from_end, &a->to_start, &a->to_end};
	int32_t n = 1;
	for (int i = 0; i < 4; i++)
		n = given[i]->count > n ? given[i]->count : n;
	for (int i = 0; i < 4; i++)
		if ((given[i]->count != 1 && given[i]->count != n) || n > STK_AFFINE_DIMS)
			return stk__fail(err, STK_INVALID, "%s has %d values: give one, or one for each of the 1 to %d components",
				names[i], given[i]->count, STK_AFFINE_DIMS);
	stk__affine_identity(out, n);
	for (int32_t d = 0; d < n; d++) {
		double v[4];
		for (int i = 0; i < 4; i++)
			v[i] = stk__affine_value(*given[i], d);
		order(a->absolute, &v[0], &v[1]);
		order(a->absolute, &v[2], &v[3]);
		if (v[0] == v[1])
			return stk__fail(err, STK_INVALID,
				"component %d of from_start and of from_end are both %g: the box is empty and cannot be scaled", d, v[0]);
		out->m[d][d] = (v[3] - v[2]) / (v[1] - v[0]);
		out->m[d][n] = v[2] - out->m[d][d] * v[0];
	}
	return STK_OK;
}

static enum stk_status crop_map_infer(const struct stk_call *call, struct stk_error *err)
{
	return stk__affine_infer(call, crop_map_make, err);
}

static enum stk_status crop_map_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	stk__affine_run(call, ((const struct crop_map *)call->args)->reverse_order);
	return STK_OK;
}

const struct stk_op_def stk__op_transforms_crop = {
	.name = "transforms.crop",
	.doc = "Makes the affine transform that maps one box of coordinates to another.\n\n"
	       "from_start is mapped to to_start and from_end to to_end, as the points of an image move when it is cropped or resized." STK_AFFINE_DOC,
	.inputs = {0, 1},
	.host_inputs = 1,
	.frame_inputs = UINT64_MAX,
	.args = crop_map_args,
	.args_size = sizeof(struct crop_map),
	.state_size = sizeof(struct stk_affine),
	.flags = STK_OP_CLONED,
	.infer = crop_map_infer,
	.run_cpu = crop_map_run,
};
