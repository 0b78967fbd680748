/* SPDX-License-Identifier: Apache-2.0
 * copy: a tensor with the same values. */
#include "op/tensor/view.h"

static const struct stk_arg_def copy_args[] = {STK_ARG_END};

/* Makes the output a view of the input, since a value that leaves the pipeline gets memory of its own anyway. */
static enum stk_status copy_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0] = call->in[0];
	return STK_OK;
}

const struct stk_op_def stk__op_copy = {
	.name = "copy",
	.doc = "Copies tensors.",
	.inputs = {1, 1},
	.args = copy_args,
	.flags = STK_OP_MOVES,
	.infer = copy_infer,
	.lower_jobs = stk__view_lower_jobs,
};
