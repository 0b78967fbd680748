/* SPDX-License-Identifier: Apache-2.0
 * one_hot: makes of each class number a vector in which one element differs from the others. */
#include "kernel/one_hot/one_hot.h"
#include "op/nd.h"
#include "op/tensor/join.h"

struct one_hot {
	int64_t num_classes, axis;
	const char *axis_name;
	float on_value, off_value;
	int32_t dtype;
};

static const struct stk_arg_def one_hot_args[] = {
	STK_ARG(struct one_hot, num_classes, STK_ARG_INT, "0", (0, 0x1p31 - 1), 0, "Number of classes; required."),
	STK_ARG(struct one_hot, axis, STK_ARG_INT, "-1", (-1, STK_MAX_DIMS - 1), 0, "Index of the dim of the classes; -1: last."),
	STK_ARG(struct one_hot, axis_name, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Letter of the new dim in the layout of the input, which must have one unless it is a scalar. Default: the output has no "
		"layout."),
	STK_ARG(struct one_hot, on_value, STK_ARG_FLOAT, "1.0", STK_FREE, STK_INFINITE | STK_NAN, "Value at the class."),
	STK_ARG(struct one_hot, off_value, STK_ARG_FLOAT, "0.0", STK_FREE, STK_INFINITE | STK_NAN,
		"Value of all other elements, and of all elements if the number is out of range."),
	STK_ARG(struct one_hot, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0, "Type of the output."),
	STK_ARG_END,
};

/* Returns true if gather must find out whether the tensors count as scalars. Without an axis, tensors of one element and any number of dims count as scalars if
 * all tensors of the batch have one element. Often this is known when the graph is built. */
static bool one_hot_gathers(const struct stk_call *call)
{
	const struct one_hot *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	bool open = in->ndim < 0;
	for (int32_t d = 0; d < in->ndim; d++) {
		if (in->shape[d] >= 0 && in->shape[d] != 1)
			return false;
		open |= in->shape[d] < 0;
	}
	return a->axis < 0 && open;
}

static enum stk_status one_hot_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	enum stk_status s = stk__gather_same(calls, count, 0, err);
	if (s)
		return s;
	bool *scalars = stk__gathered_take(out, sizeof *scalars);
	if (!scalars)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a batch");
	*scalars = true;
	for (int32_t i = 0; i < count; i++)
		*scalars &= stk_desc_elements(&calls[i].in[0].desc) == 1;
	return STK_OK;
}

static enum stk_status one_hot_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct one_hot *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	if (a->num_classes == 0)
		return stk__fail(err, STK_INVALID, "num_classes is needed: the extent of the output");
	enum stk_status s = stk__check_axis_name(a->axis_name, err);
	if (s)
		return s;
	*out = (struct stk_desc){.dtype = (enum stk_dtype)a->dtype, .ndim = -1};
	if (in->ndim < 0 || (stk__building(call) && one_hot_gathers(call)))
		return STK_OK;
	bool scalar = a->axis < 0 && (call->gathered ? *(const bool *)call->gathered : stk_desc_elements(in) == 1);
	int32_t ndim = scalar ? 0 : in->ndim, axis = a->axis < 0 ? ndim : (int32_t)a->axis;
	if (ndim >= STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "the output would have %d dims; tensors have up to %d", ndim + 1, STK_MAX_DIMS);
	if (axis > ndim)
		return stk__fail(err, STK_INVALID, "axis %d is out of range for an output of %d dims", axis, ndim + 1);
	if (a->axis_name && ndim > 0 && !in->layout[0])
		return stk__fail(err, STK_INVALID, "axis_name \"%s\" needs a layout to stand in, and the input has none", a->axis_name);
	out->ndim = ndim + 1;
	for (int32_t d = 0; d <= ndim; d++) {
		int32_t from = d - (d > axis);
		out->shape[d] = d == axis ? a->num_classes : in->shape[from];
		out->layout[d] = !a->axis_name ? 0 : d == axis ? a->axis_name[0] : in->layout[from];
	}
	return STK_OK;
}

static enum stk_status one_hot_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct one_hot *a = call->args;
	int32_t axis = a->axis < 0 ? call->out[0].desc.ndim - 1 : (int32_t)a->axis;
	return stk__job_one_hot(jobs, &call->in[0], &call->out[0], axis, a->on_value, a->off_value, err);
}

const struct stk_op_def stk__op_one_hot = {
	.name = "one_hot",
	.doc = "Makes one-hot vectors of class numbers.\n\n"
	       "A scalar becomes a vector, and so does a tensor of one element if all tensors of the batch have one element; other "
	       "tensors get one more dim.",
	.inputs = {1, 1},
	.args = one_hot_args,
	.args_size = sizeof(struct one_hot),
	.gather = one_hot_gather,
	.gathers = one_hot_gathers,
	.infer = one_hot_infer,
	.lower_jobs = one_hot_lower_jobs,
};
