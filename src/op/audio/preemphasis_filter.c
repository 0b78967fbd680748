/* SPDX-License-Identifier: Apache-2.0
 * preemphasis_filter: raises the high frequencies of a signal before its spectrum is taken. */
#include "kernel/preemphasis/preemphasis.h"
#include "op/op.h"

#include <string.h>

struct preemphasis_filter {
	const char *border;
	float preemph_coeff;
	int32_t dtype;
};

static const struct stk_arg_def preemphasis_filter_args[] = {
	STK_ARG(struct preemphasis_filter, preemph_coeff, STK_ARG_FLOAT, "0.97", STK_FREE, STK_PER_SAMPLE, "The coefficient c."),
	{.name = "border",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct preemphasis_filter, border),
		.fallback = "\"clamp\"",
		.choices = "zero|clamp|reflect",
		.doc = "The value before the first element: 0, the first element, or the second one."},
	STK_ARG(struct preemphasis_filter, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0, "Type of the output."),
	STK_ARG_END,
};

static enum stk_status preemphasis_filter_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct preemphasis_filter *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	if (in->dtype == STK_BOOL || a->dtype == STK_BOOL)
		return stk__fail(err, STK_UNSUPPORTED, "preemphasis_filter is for signals of numbers, not of bool; cast them first");
	call->out[0].desc = *in;
	call->out[0].desc.dtype = (enum stk_dtype)a->dtype;
	return STK_OK;
}

static enum stk_status preemphasis_filter_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct preemphasis_filter *a = call->args;
	const struct stk_preemphasis p = {.coefficient = a->preemph_coeff,
		.border = strcmp(a->border, "zero") == 0    ? STK_PREEMPHASIS_ZERO
			  : strcmp(a->border, "clamp") == 0 ? STK_PREEMPHASIS_CLAMP
							    : STK_PREEMPHASIS_REFLECT};
	return stk__job_preemphasis(jobs, &p, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_preemphasis_filter = {
	.name = "preemphasis_filter",
	.doc = "Raises the high frequencies of a signal: y[i] = x[i] - c x[i - 1].\n\n"
	       "Inputs are tensors of any shape. x[i - 1] is the element before x[i] in memory, even if that belongs to another "
	       "channel, as in DALI: filter each channel on its own. The arithmetic is float32, or double for inputs of float64.",
	.inputs = {1, 1},
	.args = preemphasis_filter_args,
	.args_size = sizeof(struct preemphasis_filter),
	.infer = preemphasis_filter_infer,
	.lower_jobs = preemphasis_filter_lower_jobs,
};
