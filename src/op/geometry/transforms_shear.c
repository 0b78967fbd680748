/* SPDX-License-Identifier: Apache-2.0
 * transforms.shear: shears points of two or three components. */
#include "base/math.h"
#include "op/geometry/affine.h"

struct shear {
	struct stk_floats shear;
	struct stk_ints shear_shape;
	struct stk_floats angles;
	struct stk_ints angles_shape;
	struct stk_floats center;
	bool reverse_order;
};

static const struct stk_arg_def shear_args[] = {
	STK_ARG(struct shear, shear, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK | STK_SHAPED,
		"Factors: (xy, yx), or (xy, xz, yx, yz, zx, zy) for points of three components. xy is the distance that x moves if y grows "
		"by 1."),
	STK_ARG(struct shear, angles, STK_ARG_FLOATS, NULL, (-90, 90), STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK | STK_SHAPED,
		"Angles in degrees, instead of shear, in the same order; a factor is the tangent of its angle."),
	STK_ARG(struct shear, center, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"The fixed point, one value a component, or one for all. Default: the origin."),
	STK_AFFINE_REVERSE_ORDER(struct shear),
	STK_ARG_END,
};

static enum stk_status shear_make(const struct stk_call *call, struct stk_affine *out, struct stk_error *err)
{
	const struct shear *a = call->args;
	bool angles = a->angles.count >= 0;
	const struct stk_floats *given = angles ? &a->angles : &a->shear;
	if (angles == (a->shear.count >= 0))
		return stk__fail(err, STK_INVALID, angles ? "shear and angles are both given: choose one" : "give shear or angles");
	if (given->count != 2 && given->count != 6)
		return stk__fail(err, STK_INVALID, "%s has %d values; it takes 2 for points of two components, 6 for three",
			angles ? "angles" : "shear", given->count);
	int32_t n = given->count == 2 ? 2 : 3;
	const char *name = angles ? "angles" : "shear";
	enum stk_status s = stk__check_matrix(name, angles ? a->angles_shape : a->shear_shape, n, n - 1, err);
	if (s)
		return s;
	stk__affine_identity(out, n);
	for (int32_t i = 0, k = 0; i < n; i++)
		for (int32_t j = 0; j < n; j++) {
			if (i == j)
				continue;
			double v = (double)given->v[k++], radians = stk__radians(v);
			out->m[i][j] = angles ? stk__sin(radians) / stk__cos(radians) : v;
		}
	return stk__affine_about(out, "center", a->center, err);
}

static enum stk_status shear_infer(const struct stk_call *call, struct stk_error *err)
{
	return stk__affine_infer(call, shear_make, err);
}

static enum stk_status shear_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	stk__affine_run(call, ((const struct shear *)call->args)->reverse_order);
	return STK_OK;
}

const struct stk_op_def stk__op_transforms_shear = {
	.name = "transforms.shear",
	.doc = "Makes the affine transform that shears points." STK_AFFINE_DOC,
	.inputs = {0, 1},
	.host_inputs = 1,
	.frame_inputs = UINT64_MAX,
	.args = shear_args,
	.args_size = sizeof(struct shear),
	.state_size = sizeof(struct stk_affine),
	.flags = STK_OP_CLONED,
	.infer = shear_infer,
	.run_cpu = shear_run,
};
