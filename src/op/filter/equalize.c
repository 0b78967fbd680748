/* SPDX-License-Identifier: Apache-2.0
 * equalize and autocontrast: spread the values of each channel over their whole range. */
#include "kernel/equalize/equalize.h"
#include "op/dims.h"

struct equalize {
	const char *method;
};

static const struct stk_arg_def equalize_args[] = {
	{.name = "method",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct equalize, method),
		.fallback = "\"opencv\"",
		.choices = "opencv|pillow",
		.doc = "Library whose rounding is used: OpenCV's, as DALI does, or Pillow's, as torchvision's transforms of PIL images do."},
	STK_ARG_END,
};

static const struct stk_arg_def autocontrast_args[] = {STK_ARG_END};

static enum stk_status bytes_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(
			err, STK_UNSUPPORTED, "only uint8 images can be equalised or stretched, not %s", stk_dtype_name(in->dtype));
	return stk__dims_of_rows(in, &dims, err);
}

static enum stk_status by_tables(const struct stk_call *call, struct stk_jobs *jobs, enum stk_equalize_table table, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s)
		return s;
	struct stk_rows rows = stk__rows_of(&dims, in);
	struct stk_equalize e = {.outer = rows.frames,
		.height = rows.height,
		.width = rows.width,
		.channels = (int32_t)rows.channels,
		.table = (uint8_t)table};
	return stk__job_equalize(jobs, &e, NULL, &call->in[0], &call->out[0], err);
}

static enum stk_status equalize_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct equalize *a = call->args;
	return by_tables(call, jobs, a->method[0] == 'p' ? STK_EQUALIZE_PILLOW : STK_EQUALIZE_OPENCV, err);
}

static enum stk_status autocontrast_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	return by_tables(call, jobs, STK_EQUALIZE_STRETCH, err);
}

const struct stk_op_def stk__op_equalize = {
	.name = "equalize",
	.alias = "experimental.equalize",
	.doc = "Spreads the values of each channel over their whole range.\n\n"
	       "Images are of uint8. Each channel of each frame is mapped by the running sum of its histogram, so that its least value "
	       "becomes 0 and its largest 255; a channel with a single value does not change. Pillow's method uses whole steps, so "
	       "that the largest value may become less.",
	.inputs = {1, 1},
	.layouts = "HW HWC CHW FHW FHWC FCHW",
	.args = equalize_args,
	.args_size = sizeof(struct equalize),
	.flags = STK_OP_IMAGES,
	.infer = bytes_infer,
	.lower_jobs = equalize_lower_jobs,
};

const struct stk_op_def stk__op_autocontrast = {
	.name = "autocontrast",
	.doc = "Stretches the values of each channel to their whole range.\n\n"
	       "Images are of uint8. In each channel of each frame a line maps the least value to 0 and the largest to 255, and its "
	       "values are cut to whole numbers, as in Pillow's ImageOps.autocontrast and torchvision's RandomAutocontrast; a channel "
	       "with a single value does not change.",
	.inputs = {1, 1},
	.layouts = "HW HWC CHW FHW FHWC FCHW",
	.args = autocontrast_args,
	.flags = STK_OP_IMAGES,
	.infer = bytes_infer,
	.lower_jobs = autocontrast_lower_jobs,
};
