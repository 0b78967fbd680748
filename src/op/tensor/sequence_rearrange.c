/* SPDX-License-Identifier: Apache-2.0
 * sequence_rearrange: reorders the frames of a sequence. */
#include "kernel/copy/copy.h"
#include "op/tensor/frames.h"

struct sequence_rearrange {
	struct stk_ints new_order;
};

static const struct stk_arg_def sequence_rearrange_args[] = {
	{.name = "new_order",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_REQUIRED | STK_SCALAR_OK,
		.offset = offsetof(struct sequence_rearrange, new_order),
		.min = 0,
		.max = 0x1p40,
		.shapes = true,
		.doc = "For each frame of the output, its number in the input. Frames may be left out or repeated; there must be at least "
		       "one."},
	STK_ARG_END,
};

/* Returns how many frames of the output, from frame `i` on, are consecutive frames of the input. */
static int32_t run_length(struct stk_ints order, int32_t i)
{
	int32_t n = 1;
	while (i + n < order.count && order.v[i + n] == order.v[i] + n)
		n++;
	return n;
}

static enum stk_status sequence_rearrange_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct sequence_rearrange *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	struct stk_tensor *out = &call->out[0];
	enum stk_status s = stk__check_frames(&in->desc, err);
	out->desc = in->desc;
	if (s || in->desc.ndim < 0 || stk__varies(call, &a->new_order))
		return s;
	if (a->new_order.count < 1)
		return stk__fail(err, STK_INVALID, "new_order is empty; a sequence keeps at least one frame");
	out->desc.shape[0] = a->new_order.count;
	for (int32_t i = 0; i < a->new_order.count && s == STK_OK; i++)
		s = stk__check_frame(&in->desc, a->new_order.v[i], err);
	if (s == STK_OK && !stk__building(call) &&
		run_length(a->new_order, 0) == a->new_order.count) /* the frames are consecutive in the input, so the
	                                                                                               * output is a view of it */
		out->data = (uint8_t *)in->data + a->new_order.v[0] * (stk_desc_bytes(&out->desc) / a->new_order.count);
	return s;
}

static enum stk_status sequence_rearrange_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct sequence_rearrange *a = call->args;
	int64_t frame = stk_desc_elements(&call->out[0].desc) / a->new_order.count;
	size_t bytes = (size_t)frame * stk_dtype_size(call->in[0].desc.dtype);
	enum stk_status s = STK_OK;
	for (int32_t i = 0, n; frame && i < a->new_order.count && s == STK_OK; i += n) {
		n = run_length(a->new_order, i);
		const struct stk_tensor from = {(uint8_t *)call->in[0].data + (size_t)a->new_order.v[i] * bytes, call->in[0].desc};
		s = stk__job_copy_rows(jobs, &from, &call->out[0], &(struct stk_job_rows){1, n * frame, i * frame, 0}, err);
	}
	return s;
}

const struct stk_op_def stk__op_sequence_rearrange = {
	.name = "sequence_rearrange",
	.doc = "Puts the frames of sequences in another order.\n\n"
	       "Frames lie along the outermost dim, which must be F if the tensor has a layout. If the output is a run of consecutive "
	       "frames, nothing is copied.",
	.inputs = {1, 1},
	.args = sequence_rearrange_args,
	.args_size = sizeof(struct sequence_rearrange),
	.infer = sequence_rearrange_infer,
	.lower_jobs = sequence_rearrange_lower_jobs,
};
