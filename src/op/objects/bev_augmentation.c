/* SPDX-License-Identifier: Apache-2.0
 * bev_augmentation: draws a random transform of a scene in bird's eye view. */
#include "op/geometry/affine.h"
#include "op/objects/objects.h"

struct bev_augmentation {
	struct stk_floats rotation, scaling, translation;
	int64_t axis, seed;
};

static const struct stk_arg_def bev_augmentation_args[] = {
	STK_ARG(struct bev_augmentation, rotation, STK_ARG_FLOATS, "[0.0, 0.0]", STK_FREE, 0, "Least and largest angle, in radians."),
	STK_ARG(struct bev_augmentation, axis, STK_ARG_INT, "2", (0, 2), 0, "The axis of the rotation: 0 is x, 1 is y, 2 is z."),
	STK_ARG(struct bev_augmentation, scaling, STK_ARG_FLOATS, "[1.0, 1.0]", (0x1p-20, 0x1p20), 0, "Least and largest factor."),
	STK_ARG(struct bev_augmentation, translation, STK_ARG_FLOATS, "[0.0, 0.0, 0.0]", (0, HUGE_VAL), 0,
		"The largest distance by which the scene moves along x, y and z, in either direction."),
	STK_OBJECTS_SEED(struct bev_augmentation),
	STK_ARG_END,
};

static enum stk_status bev_augmentation_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct bev_augmentation *a = call->args;
	if (a->rotation.count != 2 || a->rotation.v[0] > a->rotation.v[1] || a->scaling.count != 2 || a->scaling.v[0] > a->scaling.v[1])
		return stk__fail(err, STK_INVALID, "%s takes a least and a largest value, in this order",
			a->scaling.count == 2 && a->scaling.v[0] <= a->scaling.v[1] ? "rotation" : "scaling");
	if (a->translation.count != 3)
		return stk__fail(err, STK_INVALID, "translation has %d values; it takes three, of x, y and z", a->translation.count);
	call->out[0].desc = stk__affine_desc(3);
	call->out[1].desc = call->out[2].desc = (struct stk_desc){STK_FLOAT, 0, {0}, ""};
	return STK_OK;
}

static enum stk_status bev_augmentation_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct bev_augmentation *a = call->args;
	struct stk_random r = call->random;
	double axis[3] = {0};
	axis[a->axis] = 1;
	float angle = (float)stk__draw_between(&r, a->rotation.v[0], a->rotation.v[1]),
	      scale = (float)stk__draw_between(&r, a->scaling.v[0], a->scaling.v[1]);
	struct stk_affine m;
	stk__affine_rotate_3d(&m, axis, (double)angle);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			m.m[i][k] *= (double)scale;
		m.m[i][3] = stk__draw_between(&r, -a->translation.v[i], a->translation.v[i]);
	}
	stk__affine_write(&m, &call->out[0]);
	*(float *)call->out[1].data = angle;
	*(float *)call->out[2].data = scale;
	return STK_OK;
}

const struct stk_op_def stk__op_bev_augmentation = {
	.name = "bev_augmentation",
	.doc = "Draws a transform of a scene: a rotation, then a scaling, then a translation.\n\n"
	       "Outputs are the transform, a matrix of 3 rows and 4 columns for affine_points and transform_matrix, the angle and the factor.",
	.outputs = 3,
	.args = bev_augmentation_args,
	.args_size = sizeof(struct bev_augmentation),
	.flags = STK_OP_RANDOM | STK_OP_CLONED,
	.infer = bev_augmentation_infer,
	.run_cpu = bev_augmentation_run,
};
