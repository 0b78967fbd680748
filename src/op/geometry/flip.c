/* SPDX-License-Identifier: Apache-2.0
 * flip: mirrors images along width or height, volumes along depth too. */
#include "kernel/copy/copy.h"
#include "op/dims.h"

struct flip {
	int64_t depthwise, horizontal, vertical;
};

static const struct stk_arg_def flip_args[] = {
	STK_ARG(struct flip, horizontal, STK_ARG_INT, "1", (0, 1), STK_PER_SAMPLE, "Mirror left and right."),
	STK_ARG(struct flip, vertical, STK_ARG_INT, "0", (0, 1), STK_PER_SAMPLE, "Mirror top and bottom."),
	STK_ARG(struct flip, depthwise, STK_ARG_INT, "0", (0, 1), STK_PER_SAMPLE, "Mirror front and back; images have a depth of 1."),
	STK_ARG_END,
};

static enum stk_status flip_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct flip *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	if (in->ndim < 0)
		return STK_OK;
	const int64_t flips[2] = {a->vertical, a->horizontal};
	for (int i = 0; i < 2; i++)
		if (flips[i] && stk__layout_find(in, "HW"[i]) < 0)
			return stk__fail(err, STK_SHAPE, "cannot mirror along %c: the tensor has %d dim%s and the layout \"%s\"%s", "HW"[i],
				in -> ndim, in -> ndim == 1 ? "" : "s", in->layout, stk__decode_first(in));
	return STK_OK;
}

static enum stk_status flip_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct flip *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	const int64_t flips[3] = {a->depthwise, a->vertical, a->horizontal};
	int64_t start[STK_MAX_DIMS] = {0}, step[STK_MAX_DIMS];
	struct stk_copy_dim dims[STK_MAX_DIMS];
	for (int32_t d = 0; d < in->ndim; d++)
		step[d] = 1;
	for (int i = 0; i < 3; i++) {
		int32_t d = stk__layout_find(in, "DHW"[i]);
		if (!flips[i] || d < 0)
			continue;
		start[d] = in->shape[d] - 1;
		step[d] = -1;
	}
	stk__copy_dims(dims, in->ndim, in->shape, NULL, start, step, in->shape);
	return stk__job_copy(jobs, &call->in[0], &call->out[0], dims, in->ndim, NULL, false, err);
}

static void flip_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct flip *a = call->args;
	stk__pass_mirror(pass, a->horizontal, a->vertical);
}

const struct stk_op_def stk__op_flip = {
	.name = "flip",
	.doc = "Mirrors images and volumes along their axes.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = flip_args,
	.args_size = sizeof(struct flip),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_WINDOW,
	.infer = flip_infer,
	.lower_jobs = flip_lower_jobs,
	.lower = flip_lower,
};
