/* SPDX-License-Identifier: Apache-2.0
 * stack: joins tensors of the same shape along a new dim. */
#include "op/op.h"

struct stack {
	int64_t axis;
	const char *axis_name;
};

static const struct stk_arg_def stack_args[] = {
	STK_ARG(struct stack, axis, STK_ARG_INT, "0", (-STK_MAX_DIMS, STK_MAX_DIMS - 1), 0,
		"Where the new dim stands; negative values count from the end of the output's."),
	STK_ARG(struct stack, axis_name, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Letter of the new dim in the layout. Default: the output has no layout."),
	STK_ARG_END,
};

/* The axis among the output's dims, or -1. */
static int32_t new_axis(const struct stack *a, int32_t ndim)
{
	int64_t axis = a->axis < 0 ? a->axis + ndim + 1 : a->axis;
	return axis < 0 || axis > ndim ? -1 : (int32_t)axis;
}

static enum stk_status check_inputs(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *first = &call->in[0].desc;
	for (int32_t i = 1; i < call->n_in; i++) {
		const struct stk_desc *d = &call->in[i].desc;
		if (d->dtype != STK_NO_DTYPE && first->dtype != STK_NO_DTYPE && d->dtype != first->dtype)
			return stk__fail(err, STK_INVALID, "inputs 0 and %d have the types %s and %s; cast one", i,
				stk_dtype_name(first->dtype), stk_dtype_name(d->dtype));
		if (d->ndim >= 0 && first->ndim >= 0 && d->ndim != first->ndim)
			return stk__fail(err, STK_SHAPE, "inputs 0 and %d have %d and %d dims", i, first->ndim, d->ndim);
		for (int32_t k = 0; d->ndim >= 0 && k < first->ndim; k++)
			if (d->shape[k] >= 0 && first->shape[k] >= 0 && d->shape[k] != first->shape[k])
				return stk__fail(err, STK_SHAPE, "inputs 0 and %d have extents %lld and %lld in dim %d", i,
					(long long)first->shape[k], (long long)d->shape[k], k);
	}
	return STK_OK;
}

static enum stk_status stack_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stack *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	enum stk_status s = check_inputs(call, err);
	if (s)
		return s;
	*out = (struct stk_desc){.dtype = in->dtype, .ndim = -1};
	if (in->ndim < 0)
		return STK_OK;
	int32_t axis = new_axis(a, in->ndim);
	if (in->ndim >= STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "the output would have %d dims; tensors have up to %d", in->ndim + 1, STK_MAX_DIMS);
	if (axis < 0)
		return stk__fail(err, STK_INVALID, "axis %lld is out of range for an output of %d dims", (long long)a->axis, in->ndim + 1);
	out->ndim = in->ndim + 1;
	bool letters = a->axis_name && a->axis_name[0] && (in->layout[0] || in->ndim == 0);
	for (int32_t d = 0; d < out->ndim; d++) {
		int32_t from = d - (d > axis);
		out->shape[d] = d == axis ? call->n_in : in->shape[from];
		out->layout[d] = !letters ? 0 : d == axis ? a->axis_name[0] : in->layout[from];
	}
	return STK_OK;
}

static enum stk_status stack_lower_array(const struct stk_call *call, struct stk_array_jobs *jobs, struct stk_error *err)
{
	const struct stack *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axis = new_axis(a, in->ndim);
	int64_t count = 1, length = 1;
	for (int32_t d = 0; d < axis; d++)
		count *= in->shape[d];
	for (int32_t d = axis; d < in->ndim; d++)
		length *= in->shape[d];
	struct stk_array_rows rows = {count, length, 0, length * call->n_in};
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < call->n_in && s == STK_OK; i++, rows.first += length)
		s = stk__array_copy_rows(jobs, &call->in[i], &call->out[0], &rows, err);
	return s;
}

const struct stk_op_def stk__op_stack = {
	.name = "stack",
	.doc = "Joins tensors of the same shape along a new dim.",
	.inputs = {1, STK_MAX_INPUTS},
	.args = stack_args,
	.args_size = sizeof(struct stack),
	.infer = stack_infer,
	.lower_array = stack_lower_array,
};
