/* SPDX-License-Identifier: Apache-2.0
 * _shape: what x.shape() of the bindings makes. */
#include "op/op.h"

#include <string.h>

static const struct stk_arg_def shape_args[] = {STK_ARG_END};

static enum stk_status shape_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0].desc = (struct stk_desc){STK_INT64, 1, {call->in[0].desc.ndim}, ""};
	return STK_OK;
}

static enum stk_status shape_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct stk_desc *in = &call->in[0].desc;
	memcpy(call->out[0].data, in->shape, (size_t)in->ndim * sizeof *in->shape);
	return STK_OK;
}

const struct stk_op_def stk__op_shape = {
	.name = "_shape",
	.doc = "Gives the shape of a tensor as int64.",
	.inputs = {1, 1},
	.args = shape_args,
	.flags = STK_OP_HIDDEN | STK_OP_DESCRIBES,
	.infer = shape_infer,
	.run_cpu = shape_run,
};
