/* SPDX-License-Identifier: Apache-2.0
 * transforms.translation: shifts points. */
#include "op/geometry/affine.h"

struct translation {
	struct stk_floats offset;
	bool reverse_order;
};

static const struct stk_arg_def translation_args[] = {
	STK_ARG(struct translation, offset, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_REQUIRED | STK_SCALAR_OK,
		"Distance by which points move, one value a component: 1 to 6 of them."),
	STK_AFFINE_REVERSE_ORDER(struct translation),
	STK_ARG_END,
};

static enum stk_status translation_make(const struct stk_call *call, struct stk_affine *out, struct stk_error *err)
{
	const struct translation *a = call->args;
	if (a->offset.count < 1 || a->offset.count > STK_AFFINE_DIMS)
		return stk__fail(
			err, STK_INVALID, "offset has %d values; points have 1 to %d components", a->offset.count, STK_AFFINE_DIMS);
	stk__affine_identity(out, a->offset.count);
	for (int32_t d = 0; d < out->ndim; d++)
		out->m[d][out->ndim] = (double)a->offset.v[d];
	return STK_OK;
}

static enum stk_status translation_infer(const struct stk_call *call, struct stk_error *err)
{
	return stk__affine_infer(call, translation_make, err);
}

static enum stk_status translation_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	stk__affine_run(call, ((const struct translation *)call->args)->reverse_order);
	return STK_OK;
}

const struct stk_op_def stk__op_transforms_translation = {
	.name = "transforms.translation",
	.doc = "Makes the affine transform that shifts points." STK_AFFINE_DOC,
	.inputs = {0, 1},
	.host_inputs = 1,
	.frame_inputs = UINT64_MAX,
	.args = translation_args,
	.args_size = sizeof(struct translation),
	.state_size = sizeof(struct stk_affine),
	.flags = STK_OP_CLONED,
	.infer = translation_infer,
	.run_cpu = translation_run,
};
