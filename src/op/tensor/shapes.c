/* SPDX-License-Identifier: Apache-2.0
 * shapes: outputs the shape of a tensor as a vector. The bindings offer it as fn.shapes and x.shape(). */
#include "kernel/convert/convert.h"
#include "op/op.h"

struct shapes {
	int32_t dtype;
};

static const struct stk_arg_def shapes_args[] = {
	STK_ARG(struct shapes, dtype, STK_ARG_DTYPE, "7", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output: int32, uint32, int64, uint64, float32 or float64."),
	STK_ARG_END,
};

static enum stk_status shapes_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct shapes *a = call->args;
	enum stk_dtype dtype = (enum stk_dtype)a->dtype;
	if (stk_dtype_size(dtype) < 4)
		return stk__fail(err, STK_INVALID,
			"shapes can be int32, uint32, int64, uint64, float32 or float64, not %s; cast the result", stk_dtype_name(dtype));
	call->out[0].desc = (struct stk_desc){dtype, 1, {call->in[0].desc.ndim}, ""};
	return STK_OK;
}

static enum stk_status shapes_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct stk_desc *in = &call->in[0].desc;
	stk__convert(call->out[0].data, call->out[0].desc.dtype, in->shape, STK_INT64, in->ndim);
	return STK_OK;
}

const struct stk_op_def stk__op_shapes = {
	.name = "shapes",
	.doc = "Outputs the shapes of tensors.\n\n"
	       "The result is on the CPU, even if the tensors are on the GPU.",
	.inputs = {1, 1},
	.args = shapes_args,
	.args_size = sizeof(struct shapes),
	.flags = STK_OP_DESCRIBES,
	.infer = shapes_infer,
	.run_cpu = shapes_run,
};
