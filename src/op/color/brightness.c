/* SPDX-License-Identifier: Apache-2.0
 * brightness: multiplies by a factor and adds a shift. */
#include "op/color/intensity.h"

struct brightness {
	float brightness, brightness_shift;
	int32_t dtype;
};

static const struct stk_arg_def brightness_args[] = {
	STK_ARG(struct brightness, brightness, STK_ARG_FLOAT, "1.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Factor; 0 is black, 1 changes nothing."),
	STK_ARG(struct brightness, brightness_shift, STK_ARG_FLOAT, "0.0", STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME,
		"Shift, as a fraction of the output range: 1 is 255 for uint8 and 1 for float32."),
	STK_ARG(struct brightness, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, stk__intensity_dtype_doc),
	STK_ARG_END,
};

static enum stk_status brightness_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct brightness *a = call->args;
	return stk__intensity_infer(call, a->dtype, err);
}

static void brightness_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct brightness *a = call->args;
	const struct stk_intensity i = {a->brightness, a->brightness_shift, 1, NAN};
	stk__intensity_lower(&i, a->dtype, pass);
}

const struct stk_op_def stk__op_brightness = {
	.name = "brightness",
	.doc = "Changes the brightness of images.\n\nout = brightness_shift * range + brightness * x, where range is 255 for uint8 outputs "
	       "and 1 for floats.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW DHWC",
	.args = brightness_args,
	.args_size = sizeof(struct brightness),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_POINTWISE,
	.infer = brightness_infer,
	.lower = brightness_lower,
};
