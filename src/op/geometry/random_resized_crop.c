/* SPDX-License-Identifier: Apache-2.0
 * random_resized_crop: draws a random window and resizes it. */
#include "op/geometry/random_crop_args.h"
#include "op/geometry/resize_args.h"

struct random_resized_crop {
	struct stk_random_crop_args crop;
	struct stk_filter_args filter;
	struct stk_ints size;
};

static const struct stk_arg_def random_resized_crop_args[] = {
	STK_ARG(struct random_resized_crop, size, STK_ARG_INTS, NULL, (1, 0x1p24), STK_REQUIRED | STK_SCALAR_OK,
		"Height and width of the output, or one value for both."),
	STK_ARG_GROUP(struct random_resized_crop, crop, stk__random_crop_group),
	STK_ARG_GROUP(struct random_resized_crop, filter, stk__filter_group),
	STK_ARG_END,
};

static enum stk_status random_resized_crop_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct random_resized_crop *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_resize *r = call->state;
	struct stk_dims dims;
	if (a->size.count != 1 && a->size.count != 2)
		return stk__fail(err, STK_INVALID, "size has %d values; it takes (height, width) or one for both", a->size.count);
	enum stk_status s = stk__random_crop_check(&a->crop, false, err);
	if (s || (s = stk__dims_of(in, &dims, err)) || (s = stk__filter_of_args(&a->filter, in->dtype, r, err)))
		return s;
	r->out_h = (int32_t)a->size.v[0];
	r->out_w = (int32_t)a->size.v[a->size.count - 1];
	call->out[0].desc = *in;
	call->out[0].desc.dtype = stk__dtype_or(a->filter.dtype, in->dtype);
	if (!dims.known)
		return STK_OK;
	call->out[0].desc.shape[dims.h] = r->out_h;
	call->out[0].desc.shape[dims.w] = r->out_w;
	if (stk__building(call))
		return STK_OK;
	if (in->shape[dims.h] < 1 || in->shape[dims.w] < 1)
		return stk__fail(err, STK_SHAPE, "the image has no pixels");
	struct stk_random random = call->random;
	struct stk_rect w = stk__random_crop(&a->crop, &random, (int32_t)in->shape[dims.w], (int32_t)in->shape[dims.h]);
	r->roi_x0 = (float)w.x;
	r->roi_y0 = (float)w.y;
	r->roi_x1 = (float)(w.x + w.w);
	r->roi_y1 = (float)(w.y + w.h);
	return STK_OK;
}

static void random_resized_crop_lower(const struct stk_call *call, struct stk_pass *pass)
{
	stk__pass_resize(pass, call->state);
}

const struct stk_op_def stk__op_random_resized_crop = {
	.name = "random_resized_crop",
	.doc = "Resizes a random window of an image.\n\n"
	       "The window's part of the area and its aspect ratio are drawn within bounds, the aspect ratio uniformly in its "
	       "logarithm. Filters may read\n"
	       "around the window. After decoders.image only the needed part is decoded.",
	.inputs = {1, 1},
	.layouts = "HWC CHW HW FHWC FCHW FHW",
	.args = random_resized_crop_args,
	.args_size = sizeof(struct random_resized_crop),
	.state_size = sizeof(struct stk_resize),
	.flags = STK_OP_IMAGES | STK_OP_RANDOM,
	.classes = STK_CLASS_SAMPLER,
	.infer = random_resized_crop_infer,
	.lower = random_resized_crop_lower,
};
