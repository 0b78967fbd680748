/* SPDX-License-Identifier: Apache-2.0
 * transforms.rotation: rotates points of two components, or points of three about an axis. */
#include "op/geometry/affine.h"

struct rotation {
	float angle;
	struct stk_floats axis, center;
	bool reverse_order;
};

static const struct stk_arg_def rotation_args[] = {
	STK_ARG(struct rotation, angle, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_REQUIRED,
		"Angle in degrees: from the first component towards the second, or, with an axis, by the right-hand rule about it."),
	STK_ARG(struct rotation, axis, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Axis of the rotation, three values, or one for all three, of any length but 0; points then have three components. Default: "
		"points have two components."),
	STK_ARG(struct rotation, center, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"The fixed point, one value a component, or one for all. Default: the origin."),
	STK_AFFINE_REVERSE_ORDER(struct rotation),
	STK_ARG_END,
};

static enum stk_status rotation_make(const struct stk_call *call, struct stk_affine *out, struct stk_error *err)
{
	const struct rotation *a = call->args;
	double angle = stk__radians((double)a->angle), axis[3] = {0, 0, 0};
	if (a->axis.count >= 0) {
		if (a->axis.count != 3 && a->axis.count != 1)
			return stk__fail(err, STK_INVALID, "axis has %d values; it takes three", a->axis.count);
		for (int32_t d = 0; d < 3; d++)
			axis[d] = stk__affine_value(a->axis, d);
		if (axis[0] == 0 && axis[1] == 0 && axis[2] == 0)
			return stk__fail(err, STK_INVALID, "axis is 0 and has no direction; give one of another length");
		stk__affine_rotate_3d(out, axis, angle);
	} else {
		stk__affine_rotate_2d(out, angle);
	}
	return stk__affine_about(out, "center", a->center, err);
}

static enum stk_status rotation_infer(const struct stk_call *call, struct stk_error *err)
{
	return stk__affine_infer(call, rotation_make, err);
}

static enum stk_status rotation_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	stk__affine_run(call, ((const struct rotation *)call->args)->reverse_order);
	return STK_OK;
}

const struct stk_op_def stk__op_transforms_rotation = {
	.name = "transforms.rotation",
	.doc = "Makes the affine transform that rotates points." STK_AFFINE_DOC,
	.inputs = {0, 1},
	.host_inputs = 1,
	.frame_inputs = UINT64_MAX,
	.args = rotation_args,
	.args_size = sizeof(struct rotation),
	.state_size = sizeof(struct stk_affine),
	.flags = STK_OP_CLONED,
	.infer = rotation_infer,
	.run_cpu = rotation_run,
};
