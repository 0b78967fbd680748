/* SPDX-License-Identifier: Apache-2.0
 * hue: rotates the hue. */
#include "op/color/color.h"
#include "op/color/intensity.h"

struct hue {
	float hue;
	int32_t dtype, image_type;
};

static const struct stk_arg_def hue_args[] = {
	STK_ARG(struct hue, hue, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME, "Rotation of the hue, in degrees."),
	STK_ARG(struct hue, image_type, STK_ARG_IMAGE_TYPE, "0", (0, STK_ANY_DATA), STK_ACCEPTED, stk__color_type_doc),
	STK_ARG(struct hue, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__intensity_dtype_doc),
	STK_ARG_END,
};

static enum stk_status hue_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct hue *a = call->args;
	return stk__color_infer(call, a->dtype, err);
}

static void hue_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct hue *a = call->args;
	const struct stk_color c = {a->hue, 1, 1, 1};
	stk__color_lower(&c, a->dtype, pass);
}

const struct stk_op_def stk__op_hue = {
	.name = "hue",
	.doc = "Rotates the hue of images.\n\n"
	       "Colours are changed in the linear space YIQ, an approximation by which the change is a single matrix.",
	.inputs = {1, 1},
	.layouts = "HWC FHWC DHWC",
	.args = hue_args,
	.args_size = sizeof(struct hue),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE | STK_CLASS_MIXES,
	.infer = hue_infer,
	.lower = hue_lower,
};
