/* SPDX-License-Identifier: Apache-2.0
 * transforms.scale: scales points, about a centre. */
#include "op/geometry/affine.h"

struct scale {
	struct stk_floats scale, center;
	int64_t ndim;
	bool reverse_order;
};

static const struct stk_arg_def scale_args[] = {
	STK_ARG(struct scale, scale, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_REQUIRED | STK_SCALAR_OK,
		"Factor of each component, 1 to 6 values. One value applies to all components, whose number is then the input's, or ndim."),
	STK_ARG(struct scale, center, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"The fixed point, one value a component, or one for all. Default: the origin."),
	STK_ARG(struct scale, ndim, STK_ARG_INT, NULL, (0, STK_AFFINE_DIMS), 0,
		"Number of components of points, if scale has one value and there is no input. Default, and 0: 1."),
	STK_AFFINE_REVERSE_ORDER(struct scale),
	STK_ARG_END,
};

static enum stk_status scale_make(const struct stk_call *call, struct stk_affine *out, struct stk_error *err)
{
	const struct scale *a = call->args;
	int32_t ndim = a->scale.count, in = stk__affine_input_dims(call);
	if (ndim < 1 || ndim > STK_AFFINE_DIMS)
		return stk__fail(err, STK_INVALID, "scale has %d values; points have 1 to %d components", ndim, STK_AFFINE_DIMS);
	if (ndim == 1)
		ndim = in > 0 ? in : stk__int_given(a->ndim) && a->ndim > 0 ? (int32_t)a->ndim : 1;
	stk__affine_identity(out, ndim);
	for (int32_t d = 0; d < ndim; d++)
		out->m[d][d] = stk__affine_value(a->scale, d);
	return stk__affine_about(out, "center", a->center, err);
}

static enum stk_status scale_infer(const struct stk_call *call, struct stk_error *err)
{
	return stk__affine_infer(call, scale_make, err);
}

static enum stk_status scale_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	stk__affine_run(call, ((const struct scale *)call->args)->reverse_order);
	return STK_OK;
}

const struct stk_op_def stk__op_transforms_scale = {
	.name = "transforms.scale",
	.doc = "Makes the affine transform that scales points." STK_AFFINE_DOC,
	.inputs = {0, 1},
	.host_inputs = 1,
	.frame_inputs = UINT64_MAX,
	.args = scale_args,
	.args_size = sizeof(struct scale),
	.state_size = sizeof(struct stk_affine),
	.flags = STK_OP_CLONED,
	.infer = scale_infer,
	.run_cpu = scale_run,
};
