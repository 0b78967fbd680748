/* SPDX-License-Identifier: Apache-2.0
 * expand_dims: the same values with more dims. */
#include "op/tensor/view.h"

#include <string.h>

struct expand_dims {
	struct stk_ints axes;
	const char *new_axis_names;
};

static const struct stk_arg_def expand_dims_args[] = {
	STK_ARG(struct expand_dims, axes, STK_ARG_INTS, NULL, (0, STK_MAX_DIMS - 1), STK_REQUIRED | STK_SCALAR_OK,
		"Indices of the new dims of extent 1 in the output, counted from 0."),
	STK_ARG(struct expand_dims, new_axis_names, STK_ARG_STRING, "\"\"", STK_FREE, 0,
		"Letters of the new dims in the layout, one for each of axes; the input needs a layout, unless it is a scalar. Default: the "
		"output has no layout."),
	STK_ARG_END,
};

/* Sets bit d of *dims for each new dim d of the output, which has ndim dims in total. Fails if an axis is out of range or occurs twice. */
static enum stk_status new_dims(const struct expand_dims *a, int32_t ndim, uint32_t *dims, struct stk_error *err)
{
	*dims = 0;
	if (ndim > STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "the output would have %d dims; tensors have up to %d", ndim, STK_MAX_DIMS);
	for (int32_t i = 0; i < a->axes.count; i++) {
		if (a->axes.v[i] >= ndim)
			return stk__fail(
				err, STK_INVALID, "axis %lld is out of range for an output of %d dims", (long long)a->axes.v[i], ndim);
		if (*dims >> a->axes.v[i] & 1)
			return stk__fail(err, STK_INVALID, "axis %lld is given twice", (long long)a->axes.v[i]);
		*dims |= 1u << a->axes.v[i];
	}
	return STK_OK;
}

static enum stk_status expand_dims_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct expand_dims *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	uint32_t dims;
	bool named = a->new_axis_names[0];
	*out = (struct stk_desc){.dtype = in->dtype, .ndim = -1};
	if (named && strlen(a->new_axis_names) != (size_t)a->axes.count)
		return stk__fail(err, STK_INVALID, "new_axis_names \"%s\" has %zu letters for %d axes", a->new_axis_names,
			strlen(a->new_axis_names), a->axes.count);
	if (in->ndim < 0)
		return STK_OK;
	enum stk_status s = new_dims(a, in->ndim + a->axes.count, &dims, err);
	if (s)
		return s;
	if (named && in->ndim > 0 && !in->layout[0])
		return stk__fail(
			err, STK_INVALID, "new_axis_names \"%s\" need a layout to stand in, and the input has none", a->new_axis_names);
	out->ndim = in->ndim + a->axes.count;
	bool letters = named || (!a->axes.count && in->layout[0]);
	for (int32_t d = 0, from = 0; d < out->ndim; d++) {
		bool is_new = dims >> d & 1;
		out->layout[d] = letters && !is_new ? in->layout[from] : 0;
		out->shape[d] = is_new ? 1 : in->shape[from++];
	}
	for (int32_t i = 0; named && i < a->axes.count; i++)
		out->layout[a->axes.v[i]] = a->new_axis_names[i];
	call->out[0].data = call->in[0].data;
	return STK_OK;
}

const struct stk_op_def stk__op_expand_dims = {
	.name = "expand_dims",
	.doc = "Adds dims of extent 1.\n\nNothing is copied.",
	.inputs = {1, 1},
	.args = expand_dims_args,
	.args_size = sizeof(struct expand_dims),
	.infer = expand_dims_infer,
	.lower_jobs = stk__view_lower_jobs,
};
