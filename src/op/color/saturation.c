/* SPDX-License-Identifier: Apache-2.0
 * saturation: multiplies the saturation by a factor. */
#include "op/color/color.h"
#include "op/color/intensity.h"

struct saturation {
	float saturation;
	int32_t dtype, image_type;
};

static const struct stk_arg_def saturation_args[] = {
	STK_ARG(struct saturation, saturation, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor of the saturation; 0 is gray, 1 changes nothing."),
	STK_ARG(struct saturation, image_type, STK_ARG_IMAGE_TYPE, "0", (0, STK_ANY_DATA), STK_ACCEPTED, stk__color_type_doc),
	STK_ARG(struct saturation, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__intensity_dtype_doc),
	STK_ARG_END,
};

static enum stk_status saturation_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct saturation *a = call->args;
	return stk__color_infer(call, a->dtype, err);
}

static void saturation_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct saturation *a = call->args;
	const struct stk_color c = {0, a->saturation, 1, 1};
	stk__color_lower(&c, a->dtype, pass);
}

const struct stk_op_def stk__op_saturation = {
	.name = "saturation",
	.doc = "Changes the saturation of images.\n\n"
	       "Colours are changed in the linear space YIQ, an approximation by which the change is a single matrix.",
	.inputs = {1, 1},
	.layouts = "HWC FHWC DHWC",
	.args = saturation_args,
	.args_size = sizeof(struct saturation),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE | STK_CLASS_MIXES,
	.infer = saturation_infer,
	.lower = saturation_lower,
};
