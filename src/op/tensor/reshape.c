/* SPDX-License-Identifier: Apache-2.0
 * reshape: the same values in another shape. */
#include "op/tensor/reshape_args.h"
#include "op/tensor/view.h"

struct reshape {
	struct stk_reshape_args shape;
};

static const struct stk_arg_def reshape_args[] = {
	STK_ARG_GROUP(struct reshape, shape, stk__reshape_group),
	STK_ARG_END,
};

static enum stk_status reshape_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct reshape *a = call->args;
	if (stk__reshape_is_empty(&a->shape, call))
		return stk__fail(err, STK_INVALID, "nothing would change: give shape, rel_shape, src_dims, layout or a second input");
	call->out[0].data = call->in[0].data; /* the output is a view, so nothing is copied */
	return stk__reshape_infer(&a->shape, call, call->in[0].desc.dtype, err);
}

const struct stk_op_def stk__op_reshape = {
	.name = "reshape",
	.doc = "Gives tensors another shape, with the same elements in the same order.\n\n"
	       "Nothing is copied. A second input is the shape, as whole numbers.",
	.inputs = {1, 2},
	.host_inputs = 2,
	.args = reshape_args,
	.args_size = sizeof(struct reshape),
	.infer = reshape_infer,
	.lower_jobs = stk__view_lower_jobs,
};
