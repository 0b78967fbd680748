/* SPDX-License-Identifier: Apache-2.0
 * reinterpret: the same bytes as another type, in another shape. */
#include "op/tensor/reshape_args.h"
#include "op/tensor/view.h"

struct reinterpret {
	struct stk_reshape_args shape;
	int32_t dtype;
};

static const struct stk_arg_def reinterpret_args[] = {
	STK_ARG(struct reinterpret, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output. If no shape is given, the innermost extent follows from it. Default: the input's."),
	STK_ARG_GROUP(struct reinterpret, shape, stk__reshape_group),
	STK_ARG_END,
};

static enum stk_status reinterpret_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct reinterpret *a = call->args;
	enum stk_dtype dtype = stk__dtype_or(a->dtype, call->in[0].desc.dtype);
	if (a->dtype < 0 && stk__reshape_is_empty(&a->shape, call))
		return stk__fail(
			err, STK_INVALID, "nothing would change: give dtype, shape, rel_shape, src_dims, layout or a second input");
	/* The output is a view, unless the input's address is not aligned for this type, which can happen if it is a part of another tensor. */
	if (stk__building(call) || (uintptr_t)call->in[0].data % stk_dtype_size(dtype) == 0)
		call->out[0].data = call->in[0].data;
	return stk__reshape_infer(&a->shape, call, dtype, err);
}

const struct stk_op_def stk__op_reinterpret = {
	.name = "reinterpret",
	.doc = "Reads the bytes of tensors as another type, shape or layout.\n\n"
	       "Nothing is copied. The output has as many bytes as the input.",
	.inputs = {1, 2},
	.host_inputs = 2,
	.args = reinterpret_args,
	.args_size = sizeof(struct reinterpret),
	.flags = STK_OP_MOVES,
	.infer = reinterpret_infer,
	.lower_jobs = stk__view_lower_jobs,
};
