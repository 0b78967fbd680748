/* SPDX-License-Identifier: Apache-2.0
 * cat: joins tensors along an existing dim. */
#include "kernel/copy/copy.h"
#include "op/tensor/join.h"

#include <string.h>

struct cat {
	int64_t axis;
	const char *axis_name;
};

static const struct stk_arg_def cat_args[] = {
	STK_ARG(struct cat, axis, STK_ARG_INT, NULL, (-STK_MAX_DIMS, STK_MAX_DIMS - 1), 0,
		"The dim along which inputs are joined; negative values count from the end. Default: 0."),
	STK_ARG(struct cat, axis_name, STK_ARG_STRING, NULL, STK_FREE, 0,
		"The same as a letter of the layout. At least one input needs a layout then, and those that have one must agree."),
	STK_ARG_END,
};

/* Sets *layout to the layout of those inputs that have one, or to "" if none has. STK_INVALID: they have different layouts. */
static enum stk_status common_layout(const struct stk_call *call, const char **layout, struct stk_error *err)
{
	*layout = "";
	for (int32_t i = 0; i < call->n_in; i++) {
		const char *own = call->in[i].desc.layout;
		if (own[0] && (*layout)[0] && strcmp(own, *layout) != 0)
			return stk__fail(
				err, STK_INVALID, "axis_name needs inputs of one layout; these have \"%s\" and \"%s\"", *layout, own);
		*layout = (*layout)[0] ? *layout : own;
	}
	return STK_OK;
}

static enum stk_status axis_by_name(const struct stk_call *call, const struct stk_desc *in, int32_t *axis, struct stk_error *err)
{
	const struct cat *a = call->args;
	const char *layout;
	enum stk_status s = common_layout(call, &layout, err);
	if (s)
		return s;
	const char *at = strchr(layout, a->axis_name[0]);
	if (!at)
		return stk__fail(err, STK_INVALID, "axis_name \"%s\" is not in the layout \"%s\" of the inputs; axis takes a number",
			a->axis_name, layout);
	*axis = (int32_t)(at - layout);
	if (*axis >= in->ndim)
		return stk__fail(err, STK_SHAPE, "the layout \"%s\" does not fit tensors of %d dims", layout, in->ndim);
	memcpy(call->out[0].desc.layout, layout, sizeof in->layout);
	return STK_OK;
}

static enum stk_status find_axis(const struct stk_call *call, const struct stk_desc *in, int32_t *axis, struct stk_error *err)
{
	const struct cat *a = call->args;
	if (a->axis_name)
		return axis_by_name(call, in, axis, err);
	int64_t given = stk__int_given(a->axis) ? a->axis : 0, at = given < 0 ? given + in->ndim : given;
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "scalars have no dim along which they can be joined; stack gives them one");
	if (at < 0 || at >= in->ndim)
		return stk__fail(err, STK_INVALID, "axis %lld is out of range for tensors of %d dims", (long long)given, in->ndim);
	*axis = (int32_t)at;
	memcpy(call->out[0].desc.layout, call->in[0].desc.layout, sizeof in->layout);
	return STK_OK;
}

/* Makes the output a view of an input, if this input is the only one, or the only one that has elements. */
static void view(const struct stk_call *call)
{
	int32_t filled = -1, count = 0;
	for (int32_t i = 0; i < call->n_in; i++)
		if (stk_desc_elements(&call->in[i].desc) > 0) {
			filled = i;
			count++;
		}
	if (count == 1 || call->n_in == 1)
		call->out[0].data = call->in[count == 1 ? filled : 0].data;
}

static enum stk_status cat_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct cat *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	int32_t axis;
	enum stk_status s = stk__check_axis_name(a->axis_name, err);
	if (s == STK_OK && a->axis_name && stk__int_given(a->axis))
		s = stk__fail(err, STK_INVALID, "axis and axis_name are both given: choose one");
	*out = (struct stk_desc){.dtype = in->dtype, .ndim = -1};
	if (s || !stk__join_known(call))
		return s;
	if ((s = find_axis(call, in, &axis, err)) || (s = stk__join_check(call, axis, err)))
		return s;
	out->ndim = in->ndim;
	for (int32_t d = 0; d < in->ndim; d++)
		out->shape[d] = d == axis ? 0 : stk__join_extent(call, d);
	for (int32_t i = 0; i < call->n_in && out->shape[axis] >= 0; i++) {
		int64_t extent = call->in[i].desc.shape[axis];
		out->shape[axis] = extent < 0 ? -1 : out->shape[axis] + extent;
	}
	if (!stk__building(call))
		view(call);
	return STK_OK;
}

static enum stk_status cat_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_desc *out = &call->out[0].desc;
	int64_t count = 1, inner = 1;
	int32_t axis;
	enum stk_status s = find_axis(call, &call->in[0].desc, &axis, err);
	for (int32_t d = 0; s == STK_OK && d < out->ndim; d++)
		*(d < axis ? &count : &inner) *= d == axis ? 1 : out->shape[d];
	if (s || count == 0 || inner == 0)
		return s;
	struct stk_job_rows rows = {.count = count, .stride = inner * out->shape[axis]};
	for (int32_t i = 0; i < call->n_in && s == STK_OK; i++, rows.first += rows.length) {
		rows.length = inner * call->in[i].desc.shape[axis];
		if (rows.length)
			s = stk__job_copy_rows(jobs, &call->in[i], &call->out[0], &rows, err);
	}
	return s;
}

const struct stk_op_def stk__op_cat = {
	.name = "cat",
	.doc = "Joins tensors along a dim that they have.\n\n"
	       "Their types, numbers of dims and other extents must be the same. The output has the layout of the first input, or with "
	       "axis_name the layout that\n"
	       "the inputs share. A single input, or the only one that is not empty, is passed on without a copy.",
	.inputs = {1, STK_MAX_INPUTS},
	.args = cat_args,
	.args_size = sizeof(struct cat),
	.infer = cat_infer,
	.lower_jobs = cat_lower_jobs,
};
