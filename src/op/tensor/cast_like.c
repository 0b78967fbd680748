/* SPDX-License-Identifier: Apache-2.0
 * cast_like: converts to the element type of another tensor. */
#include "kernel/copy/copy.h"
#include "op/op.h"

static const struct stk_arg_def cast_like_args[] = {STK_ARG_END};

static enum stk_status cast_like_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0].desc = call->in[0].desc;
	call->out[0].desc.dtype = call->in[1].desc.dtype;
	return STK_OK;
}

static enum stk_status cast_like_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	return stk__job_copy_all(jobs, &call->in[0], &call->out[0], true, err);
}

const struct stk_op_def stk__op_cast_like = {
	.name = "cast_like",
	.doc = "Converts tensors to the element type of the second input.\n\n"
	       "Only the type of the second input is used. Values are converted as by cast.",
	.inputs = {2, 2},
	.args = cast_like_args,
	.infer = cast_like_infer,
	.lower_jobs = cast_like_lower_jobs,
};
