/* SPDX-License-Identifier: Apache-2.0
 * flip: mirrors images along width or height. */
#include "op/op.h"

struct flip {
	int64_t horizontal, vertical;
};

static const struct stk_arg_def flip_args[] = {
	STK_ARG(struct flip, horizontal, STK_ARG_INT, "1", (0, 1), STK_PER_SAMPLE, "Mirror left and right."),
	STK_ARG(struct flip, vertical, STK_ARG_INT, "0", (0, 1), STK_PER_SAMPLE, "Mirror top and bottom."),
	STK_ARG_END,
};

static enum stk_status flip_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0].desc = call->in[0].desc;
	return STK_OK;
}

static void flip_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct flip *a = call->args;
	stk__pass_mirror(pass, a->horizontal, a->vertical);
}

const struct stk_op_def stk__op_flip = {
	.name = "flip",
	.doc = "Mirrors images along their axes.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC",
	.args = flip_args,
	.args_size = sizeof(struct flip),
	.classes = STK_CLASS_WINDOW,
	.infer = flip_infer,
	.lower = flip_lower,
};
