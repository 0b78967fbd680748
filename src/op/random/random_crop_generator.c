/* SPDX-License-Identifier: Apache-2.0
 * random_crop_generator: draws a window of an image in the same way as random_resized_crop, but outputs its position and size. So several images can be cut
 * by one window, and coordinates can be adapted to it. */
#include "kernel/convert/convert.h"
#include "op/dims.h"
#include "op/geometry/random_crop_args.h"

struct random_crop_generator {
	struct stk_random_crop_args crop;
	bool smaller;
};

static const struct stk_arg_def random_crop_generator_args[] = {
	STK_ARG_GROUP(struct random_crop_generator, crop, stk__random_crop_group),
	STK_ARG(struct random_crop_generator, smaller, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Draws the windows of torchvision's RandomErasing: smaller than the image along both axes, and empty if num_attempts draws give "
		"none. random_area may then begin at 0."),
	STK_ARG_END,
};

static enum stk_status random_crop_generator_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct random_crop_generator *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	enum stk_status s = stk__random_crop_check(&a->crop, a->smaller, err);
	if (s)
		return s;
	if (in->dtype != STK_NO_DTYPE && (!stk__dtype_whole(in->dtype) || in->dtype == STK_BOOL))
		return stk__fail(err, STK_INVALID, "the input must be a shape, of integers, not of %s", stk_dtype_name(in->dtype));
	if (in->ndim >= 0 && (in->ndim != 1 || (in->shape[0] >= 0 && in->shape[0] != 2 && in->shape[0] != 3)))
		return stk__fail(err, STK_INVALID, "the input must be a shape: height and width, which channels may follow");
	for (int32_t i = 0; i < 2; i++)
		call->out[i].desc = (struct stk_desc){STK_INT32, 1, {2}, ""};
	return STK_OK;
}

static enum stk_status random_crop_generator_run(const struct stk_call *call, struct stk_error *err)
{
	const struct random_crop_generator *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	int64_t extent[2];
	stk__convert(extent, STK_INT64, in->data, in->desc.dtype, 2);
	if (extent[0] < 1 || extent[1] < 1 || extent[0] > 1 << 24 || extent[1] > 1 << 24)
		return stk__fail(err, STK_SHAPE, "an image of %lld x %lld pixels has no room for a window", (long long)extent[1],
			(long long)extent[0]);
	struct stk_random random = call->random;
	const int32_t wide = (int32_t)extent[1], high = (int32_t)extent[0];
	const struct stk_rect w =
		a->smaller ? stk__random_smaller_crop(&a->crop, &random, wide, high) : stk__random_crop(&a->crop, &random, wide, high);
	int32_t *anchor = call->out[0].data, *shape = call->out[1].data;
	anchor[0] = w.y;
	anchor[1] = w.x;
	shape[0] = w.h;
	shape[1] = w.w;
	return STK_OK;
}

const struct stk_op_def stk__op_random_crop_generator = {
	.name = "random_crop_generator",
	.doc = "Draws a window of an image from its shape.\n\n"
	       "The input is height and width. The outputs are the window's anchor and shape, as (y, x) and (height, width). With the "
	       "same seed it is the window that\n"
	       "random_resized_crop and decoders.image_random_crop take, unless `smaller` is true.",
	.inputs = {1, 1},
	.outputs = 2,
	.host_inputs = 1,
	.args = random_crop_generator_args,
	.args_size = sizeof(struct random_crop_generator),
	.flags = STK_OP_RANDOM,
	.infer = random_crop_generator_infer,
	.run_cpu = random_crop_generator_run,
};
