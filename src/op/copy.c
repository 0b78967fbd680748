/* SPDX-License-Identifier: Apache-2.0
 * copy: the same values. */
#include "op/op.h"

static const struct stk_arg_def copy_args[] = {STK_ARG_END};

/* A view will do: whatever leaves the pipeline gets memory of its own. */
static enum stk_status copy_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0] = call->in[0];
	return STK_OK;
}

static enum stk_status copy_lower_array(const struct stk_call *call, struct stk_array_jobs *jobs, struct stk_error *err)
{
	return stk__array_copy_all(jobs, &call->in[0], &call->out[0], false, err);
}

const struct stk_op_def stk__op_copy = {
	.name = "copy",
	.doc = "Copies tensors.",
	.inputs = {1, 1},
	.args = copy_args,
	.infer = copy_infer,
	.lower_array = copy_lower_array,
};
