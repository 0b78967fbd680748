/* SPDX-License-Identifier: Apache-2.0
 * cutout: fills one rectangle of an image, in the pass that makes the image. The operator erase fills any number of regions, in tensors of any kind. */
#include "op/dims.h"

#include <math.h>

struct cutout {
	struct stk_floats anchor, shape, fill_value;
};

static const struct stk_arg_def cutout_args[] = {
	STK_ARG(struct cutout, anchor, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_REQUIRED,
		"Start of the rectangle: (y, x), in pixels."),
	STK_ARG(struct cutout, shape, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_REQUIRED,
		"Height and width of the rectangle, in pixels; if one of them is 0, nothing is filled."),
	STK_ARG(struct cutout, fill_value, STK_ARG_FLOATS, "[0.0]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK | STK_INFINITE | STK_NAN,
		"Fill value of the rectangle; integer types drop the fraction and saturate. One value, or one for each channel."),
	STK_ARG_END,
};

static enum stk_status check_pair(const struct stk_call *call, const char *name, const struct stk_floats *pair, struct stk_error *err)
{
	return pair->count == 2 || stk__varies(call, pair)
		       ? STK_OK
		       : stk__fail(err, STK_INVALID, "%s has %d values: give two, along y and x", name, pair->count);
}

static enum stk_status cutout_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct cutout *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && !stk__dtype_in_float(in->dtype))
		return stk__fail(err, STK_UNSUPPORTED, "cutout does not take images of %s; cast them first, or use erase",
			stk_dtype_name(in->dtype));
	enum stk_status s = stk__dims_of_rows(in, &dims, err);
	if (s || (s = check_pair(call, "anchor", &a->anchor, err)) || (s = check_pair(call, "shape", &a->shape, err)))
		return s;
	int64_t channels = stk__dims_channels(&dims, in);
	return channels < 0 || stk__varies(call, &a->fill_value) ? STK_OK
								 : stk__check_per_channel("fill_value", a->fill_value, channels, err);
}

/* Returns a bound of the rectangle along one axis: the whole part of x, clamped to 0 .. extent; NaN becomes 0. */
static int32_t bound(float x, int32_t extent)
{
	return !(x > 0) ? 0 : x >= (float)extent ? extent : (int32_t)x;
}

static void cutout_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct cutout *a = call->args;
	const float *anchor = a->anchor.v, *shape = a->shape.v;
	int32_t y = bound(anchor[0], pass->h), x = bound(anchor[1], pass->w);
	struct stk_rect at = {x, y, bound(anchor[1] + shape[1], pass->w) - x, bound(anchor[0] + shape[0], pass->h) - y};
	float value[STK_PASS_MAX_CHANNELS];
	bool whole = stk__dtype_whole((enum stk_dtype)pass->dtype) && pass->dtype != STK_BOOL;
	for (int32_t c = 0; c < pass->c && c < STK_PASS_MAX_CHANNELS; c++) {
		value[c] = a->fill_value.v[a->fill_value.count == 1 ? 0 : pass->plane + c];
		value[c] = whole ? truncf(value[c]) : value[c];
	}
	if (at.w > 0 && at.h > 0)
		stk__pass_hole(pass, at, value);
}

const struct stk_op_def stk__op_cutout = {
	.name = "cutout",
	.doc = "Fills one rectangle of each image with a value, as random erasing does.\n\n"
	       "It is done at the end of the pass that makes the image, and costs no more than the values that it writes. A rectangle "
	       "takes pixels from the whole part of its anchor to that of anchor + shape; parts outside of the image are ignored. The "
	       "operator erase fills any number of regions, in tensors of any kind.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = cutout_args,
	.args_size = sizeof(struct cutout),
	.flags = STK_OP_IMAGES,
	.classes = STK_CLASS_HOLE,
	.infer = cutout_infer,
	.lower = cutout_lower,
};
