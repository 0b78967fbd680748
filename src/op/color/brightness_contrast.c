/* SPDX-License-Identifier: Apache-2.0
 * brightness_contrast: changes brightness and contrast in one step. */
#include "op/color/intensity.h"

struct brightness_contrast {
	float brightness, brightness_shift, contrast, contrast_center;
	int32_t dtype;
};

static const struct stk_arg_def brightness_contrast_args[] = {
	STK_ARG(struct brightness_contrast, brightness, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor; 0 is black, 1 changes nothing."),
	STK_ARG(struct brightness_contrast, brightness_shift, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Shift, as a fraction of the output range: 1 is 255 for uint8 and 1 for float32."),
	STK_ARG(struct brightness_contrast, contrast, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor of the distance from contrast_center; 0 is gray, 1 changes nothing."),
	STK_ARG(struct brightness_contrast, contrast_center, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Value that contrast does not change. Default: the middle of the input range, 128 for uint8, 0.5 for float32."),
	STK_ARG(struct brightness_contrast, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__intensity_dtype_doc),
	STK_ARG_END,
};

static enum stk_status brightness_contrast_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct brightness_contrast *a = call->args;
	return stk__intensity_infer(call, a->dtype, err);
}

static void brightness_contrast_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct brightness_contrast *a = call->args;
	const struct stk_intensity i = {a->brightness, a->brightness_shift, a->contrast, a->contrast_center};
	stk__intensity_lower(&i, a->dtype, pass);
}

const struct stk_op_def stk__op_brightness_contrast = {
	.name = "brightness_contrast",
	.doc = "Changes the brightness and contrast of images.\n\nout = brightness_shift * range + brightness * (contrast_center + "
	       "contrast * (x - contrast_center)), where range is 255 for uint8\noutputs and 1 for floats.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW DHWC",
	.args = brightness_contrast_args,
	.args_size = sizeof(struct brightness_contrast),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE,
	.infer = brightness_contrast_infer,
	.lower = brightness_contrast_lower,
};
