/* SPDX-License-Identifier: Apache-2.0
 * per_frame: marks the outermost dim as frames. */
#include "op/tensor/view.h"

#include <string.h>

struct per_frame {
	bool replace;
};

static const struct stk_arg_def per_frame_args[] = {
	STK_ARG(struct per_frame, replace, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Replaces the first letter of a layout that does not begin with F; otherwise such a layout is an error."),
	STK_ARG_END,
};

static enum stk_status per_frame_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct per_frame *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	*out = *in;
	call->out[0].data = call->in[0].data;
	if (in->ndim < 0) {
		strcpy(out->layout, "F"); /* no more is known about the layout */
		return STK_OK;
	}
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "a scalar has no dim of frames");
	if (in->layout[0] && in->layout[0] != 'F' && !a->replace)
		return stk__fail(err, STK_INVALID, "the layout \"%s\" does not begin with F; replace=True puts it there", in->layout);
	if (!in->layout[0])
		memset(out->layout, '*', (size_t)in->ndim);
	out->layout[0] = 'F';
	return STK_OK;
}

const struct stk_op_def stk__op_per_frame = {
	.name = "per_frame",
	.doc = "Marks the outermost dim of tensors as frames of a sequence.\n\n"
	       "Only the layout changes: a missing layout becomes F and a * for each further dim. As an argument of an operator on "
	       "sequences such a tensor gives each frame its own value: the operator then runs once for each frame.",
	.inputs = {1, 1},
	.args = per_frame_args,
	.args_size = sizeof(struct per_frame),
	.infer = per_frame_infer,
	.lower_jobs = stk__view_lower_jobs,
};
