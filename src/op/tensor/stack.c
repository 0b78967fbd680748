/* SPDX-License-Identifier: Apache-2.0
 * stack: joins tensors of the same shape along a new dim. */
#include "kernel/copy/copy.h"
#include "op/tensor/join.h"

struct stack {
	int64_t axis;
	const char *axis_name;
};

static const struct stk_arg_def stack_args[] = {
	STK_ARG(struct stack, axis, STK_ARG_INT, "0", (-STK_MAX_DIMS, STK_MAX_DIMS - 1), 0,
		"Index of the new dim in the output; negative values count from the end."),
	STK_ARG(struct stack, axis_name, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Letter of the new dim in the layout of the first input, which must have one unless it is a scalar. Default: the output has no layout."),
	STK_ARG_END,
};

/* Returns the index of the new dim in the output, which has ndim + 1 dims; -1 if the argument is out of range. */
static int32_t new_axis(const struct stack *a, int32_t ndim)
{
	int64_t axis = a->axis < 0 ? a->axis + ndim + 1 : a->axis;
	return axis < 0 || axis > ndim ? -1 : (int32_t)axis;
}

static enum stk_status stack_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stack *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	enum stk_status s = stk__check_axis_name(a->axis_name, err);
	*out = (struct stk_desc){.dtype = in->dtype, .ndim = -1};
	if (s || (s = stk__join_check(call, -1, err)) || in->ndim < 0)
		return s;
	int32_t axis = new_axis(a, in->ndim);
	if (in->ndim >= STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "the output would have %d dims; tensors have up to %d", in->ndim + 1, STK_MAX_DIMS);
	if (axis < 0)
		return stk__fail(err, STK_INVALID, "axis %lld is out of range for an output of %d dims", (long long)a->axis, in->ndim + 1);
	if (a->axis_name && in->ndim > 0 && !in->layout[0])
		return stk__fail(
			err, STK_INVALID, "axis_name \"%s\" needs a layout to stand in, and the first input has none", a->axis_name);
	out->ndim = in->ndim + 1;
	for (int32_t d = 0; d < out->ndim; d++) {
		int32_t from = d - (d > axis);
		out->shape[d] = d == axis ? call->n_in : in->shape[from];
		out->layout[d] = !a->axis_name ? 0 : d == axis ? a->axis_name[0] : in->layout[from];
	}
	if (call->n_in == 1)
		call->out[0].data = call->in[0].data; /* the output is a view, so nothing is copied */
	return STK_OK;
}

static enum stk_status stack_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axis = new_axis(call->args, in->ndim);
	int64_t count = 1, length = 1;
	for (int32_t d = 0; d < axis; d++)
		count *= in->shape[d];
	for (int32_t d = axis; d < in->ndim; d++)
		length *= in->shape[d];
	struct stk_job_rows rows = {count, length, 0, length * call->n_in};
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < call->n_in && s == STK_OK; i++, rows.first += length)
		s = stk__job_copy_rows(jobs, &call->in[i], &call->out[0], &rows, err);
	return s;
}

const struct stk_op_def stk__op_stack = {
	.name = "stack",
	.doc = "Joins tensors of the same shape along a new dim.",
	.inputs = {1, STK_MAX_INPUTS},
	.args = stack_args,
	.args_size = sizeof(struct stack),
	.infer = stack_infer,
	.lower_jobs = stack_lower_jobs,
};
