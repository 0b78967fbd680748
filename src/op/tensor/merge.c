/* SPDX-License-Identifier: Apache-2.0
 * _merge: joins the branches of a condition. */
#include "op/tensor/view.h"

static const struct stk_arg_def merge_args[] = {STK_ARG_END};

/* Describes the result by the properties that both branches share. graph/when.c has checked that they agree, since it can name the user's lines in messages. */
static void describe(const struct stk_desc *a, const struct stk_desc *b, struct stk_desc *out)
{
	*out = *a;
	if (b->dtype == STK_NO_DTYPE)
		out->dtype = STK_NO_DTYPE;
	if (b->ndim < 0)
		*out = (struct stk_desc){.dtype = out->dtype, .ndim = -1};
	for (int32_t d = 0; d < out->ndim; d++)
		if (out->shape[d] != b->shape[d])
			out->shape[d] = -1;
}

static const struct stk_tensor *chosen(const struct stk_call *call)
{
	return &call->in[*(const bool *)call->in[0].data ? 1 : 2];
}

static enum stk_status merge_infer(const struct stk_call *call, struct stk_error *err)
{
	if (stk__building(call)) {
		describe(&call->in[1].desc, &call->in[2].desc, &call->out[0].desc);
		return STK_OK;
	}
	if (call->in[0].desc.dtype != STK_BOOL || call->in[0].desc.ndim != 0)
		return stk__fail(err, STK_SHAPE, "the condition must be a scalar of type bool here");
	call->out[0] = *chosen(call); /* the output is a view of the branch that was taken */
	return STK_OK;
}

static enum stk_status merge_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_call one = {.in = chosen(call), .out = call->out, .n_in = 1, .n_out = 1};
	return stk__view_lower_jobs(&one, jobs, err);
}

const struct stk_op_def stk__op_merge = {
	.name = "_merge",
	.doc = "Takes a condition and the values of its two branches, and outputs the value of the branch that the sample took.\n\n"
	       "Nothing is copied: the output is the memory of that value, or the operator before it wrote the value directly to the "
	       "output's memory.",
	.inputs = {3, 3},
	.host_inputs = 1,
	.args = merge_args,
	.flags = STK_OP_HIDDEN | STK_OP_MERGES | STK_OP_MOVES,
	.infer = merge_infer,
	.lower_jobs = merge_lower_jobs,
};
