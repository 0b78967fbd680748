/* SPDX-License-Identifier: Apache-2.0
 * hsv: changes hue, saturation and value. */
#include "op/color/color.h"
#include "op/color/intensity.h"

struct hsv {
	float hue, saturation, value;
	int32_t dtype;
};

static const struct stk_arg_def hsv_args[] = {
	STK_ARG(struct hsv, hue, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME, "Rotation of the hue, in degrees."),
	STK_ARG(struct hsv, saturation, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor of the saturation; 0 is gray, 1 changes nothing."),
	STK_ARG(struct hsv, value, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME, "Factor of all channels."),
	STK_ARG(struct hsv, dtype, STK_ARG_DTYPE, "0", (0, STK_DTYPE_COUNT - 1), 0, "Type of the output, to which values are rounded."),
	STK_ARG_END,
};

static enum stk_status hsv_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct hsv *a = call->args;
	return stk__color_infer(call, a->dtype, err);
}

static void hsv_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct hsv *a = call->args;
	const struct stk_color c = {a->hue, a->saturation, a->value, 1};
	stk__color_lower(&c, a->dtype, pass);
}

const struct stk_op_def stk__op_hsv = {
	.name = "hsv",
	.doc = "Changes hue, saturation and value of images.\n\n"
	       "Colours are changed in the linear space YIQ, an approximation by which all changes are a single matrix.",
	.inputs = {1, 1},
	.layouts = "HWC FHWC DHWC",
	.args = hsv_args,
	.args_size = sizeof(struct hsv),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE | STK_CLASS_MIXES,
	.infer = hsv_infer,
	.lower = hsv_lower,
};
