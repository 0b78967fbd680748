/* SPDX-License-Identifier: Apache-2.0
 * contrast: scales values about a centre. */
#include "op/color/intensity.h"

struct contrast {
	float contrast, contrast_center;
	int32_t dtype;
};

static const struct stk_arg_def contrast_args[] = {
	STK_ARG(struct contrast, contrast, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor of the distance from contrast_center; 0 is gray, 1 changes nothing."),
	STK_ARG(struct contrast, contrast_center, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Value that contrast does not change. Default: the middle of the input range, 128 for uint8, 0.5 for float32."),
	STK_ARG(struct contrast, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__intensity_dtype_doc),
	STK_ARG_END,
};

static enum stk_status contrast_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct contrast *a = call->args;
	return stk__intensity_infer(call, a->dtype, err);
}

static void contrast_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct contrast *a = call->args;
	const struct stk_intensity i = {1, 0, a->contrast, a->contrast_center};
	stk__intensity_lower(&i, a->dtype, pass);
}

const struct stk_op_def stk__op_contrast = {
	.name = "contrast",
	.doc = "Changes the contrast of images.\n\nout = contrast_center + contrast * (x - contrast_center).",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW DHWC",
	.args = contrast_args,
	.args_size = sizeof(struct contrast),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE,
	.infer = contrast_infer,
	.lower = contrast_lower,
};
