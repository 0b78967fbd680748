/* SPDX-License-Identifier: Apache-2.0
 * color_twist: changes hue, saturation, brightness and contrast in one step. */
#include "op/color/color.h"
#include "op/color/intensity.h"

struct color_twist {
	float brightness, contrast, hue, saturation;
	int32_t dtype, image_type;
};

static const struct stk_arg_def color_twist_args[] = {
	STK_ARG(struct color_twist, brightness, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor of all channels; 0 is black, 1 changes nothing."),
	STK_ARG(struct color_twist, contrast, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor of the distance from the middle of the input range; 0 is gray, 1 changes nothing."),
	STK_ARG(struct color_twist, hue, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Rotation of the hue, in degrees."),
	STK_ARG(struct color_twist, saturation, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor of the saturation; 0 is gray, 1 changes nothing."),
	STK_ARG(struct color_twist, image_type, STK_ARG_IMAGE_TYPE, "0", (0, STK_ANY_DATA), STK_ACCEPTED, stk__color_type_doc),
	STK_ARG(struct color_twist, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__intensity_dtype_doc),
	STK_ARG_END,
};

static enum stk_status color_twist_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct color_twist *a = call->args;
	return stk__color_infer(call, a->dtype, err);
}

static void color_twist_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct color_twist *a = call->args;
	const struct stk_color c = {a->hue, a->saturation, a->brightness, a->contrast};
	stk__color_lower(&c, a->dtype, pass);
}

const struct stk_op_def stk__op_color_twist = {
	.name = "color_twist",
	.doc = "Changes hue, saturation, brightness and contrast of images, in one step.\n\n"
	       "Colours are changed in the linear space YIQ, an approximation by which all changes are a single matrix.\n"
	       "Contrast is about the middle of the input range.",
	.inputs = {1, 1},
	.layouts = "HWC FHWC DHWC",
	.args = color_twist_args,
	.args_size = sizeof(struct color_twist),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE | STK_CLASS_MIXES,
	.infer = color_twist_infer,
	.lower = color_twist_lower,
};
