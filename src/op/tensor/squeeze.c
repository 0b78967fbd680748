/* SPDX-License-Identifier: Apache-2.0
 * squeeze: the same values without some dims of extent 1. */
#include "op/tensor/axes.h"
#include "op/tensor/view.h"

struct squeeze {
	struct stk_ints axes;
	const char *axis_names;
};

static const struct stk_arg_def squeeze_args[] = {
	STK_ARG(struct squeeze, axes, STK_ARG_INTS, NULL, (0, STK_MAX_DIMS - 1), STK_SCALAR_OK, "The dims to remove, counted from 0."),
	STK_ARG(struct squeeze, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0,
		"The same as letters of the layout. One of the two is needed."),
	STK_ARG_END,
};

static enum stk_status squeeze_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct squeeze *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	uint32_t left_out;
	if ((a->axes.count >= 0) == (a->axis_names != NULL))
		return stk__fail(err, STK_INVALID, "give the dims to remove either as axes or as axis_names");
	*out = (struct stk_desc){.dtype = in->dtype, .ndim = -1};
	if (in->ndim < 0)
		return STK_OK;
	enum stk_status s = stk__axes_named(a->axes, a->axis_names, in, &left_out, err);
	if (s)
		return s;
	out->ndim = 0;
	for (int32_t d = 0; d < in->ndim; d++)
		if (!(left_out >> d & 1)) {
			out->shape[out->ndim] = in->shape[d];
			out->layout[out->ndim++] = in->layout[0] ? in->layout[d] : 0;
		}
	int64_t before = stk_desc_elements(in), after = stk_desc_elements(out);
	for (int32_t d = 0; d < in->ndim && before != after; d++) /* an empty tensor may lose any dims as long as it stays empty */
		if ((left_out >> d & 1) && in->shape[d] >= 0 && in->shape[d] != 1 && after >= 0)
			return stk__fail(err, STK_SHAPE, "dim %d has the extent %lld; only dims of extent 1 can be removed", d,
				(long long)in->shape[d]);
	call->out[0].data = call->in[0].data;
	return STK_OK;
}

const struct stk_op_def stk__op_squeeze = {
	.name = "squeeze",
	.doc = "Removes dims of extent 1.\n\n"
	       "Nothing is copied. The layout loses the letters of these dims. An empty tensor may lose other dims too, as long as it "
	       "stays empty.",
	.inputs = {1, 1},
	.args = squeeze_args,
	.args_size = sizeof(struct squeeze),
	.infer = squeeze_infer,
	.lower_jobs = stk__view_lower_jobs,
};
