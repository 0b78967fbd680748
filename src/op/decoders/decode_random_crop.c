/* SPDX-License-Identifier: Apache-2.0
 * decoders.image_random_crop: decodes a random window of an image. */
#include "op/decoders/decode.h"
#include "op/geometry/random_crop_args.h"

struct decode_random_crop {
	struct stk_decode_args decode;
	struct stk_random_crop_args crop;
};

static const struct stk_arg_def decode_random_crop_args[] = {
	STK_ARG_GROUP(struct decode_random_crop, decode, stk__decode_group),
	STK_ARG_GROUP(struct decode_random_crop, crop, stk__random_crop_group),
	STK_ARG_END,
};

static enum stk_status decode_random_crop_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_random_crop *a = call->args;
	struct stk_decode_state *state = call->state;
	enum stk_status s = stk__random_crop_check(&a->crop, false, err);
	if (s || (s = stk__decode_infer(call, err)) || stk__building(call))
		return s;
	struct stk_random r = call->random;
	struct stk_rect w = stk__random_crop(&a->crop, &r, (int32_t)state->whole.shape[1], (int32_t)state->whole.shape[0]);
	state->window.start[0] = w.y;
	state->window.start[1] = w.x;
	state->window.extent[0] = w.h;
	state->window.extent[1] = w.w;
	return stk__decode_keep(call, err);
}

const struct stk_op_def stk__op_decode_random_crop = {
	.name = "decoders.image_random_crop",
	.alias = "image_decoder_random_crop",
	.doc = "Decodes a random window of an image.\n\n"
	       "The window's part of the area and its aspect ratio are drawn as for random_resized_crop; only the needed part is "
	       "decoded. Follow it with\n"
	       "resize for the usual training crop.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = decode_random_crop_args,
	.args_size = sizeof(struct decode_random_crop),
	.state_size = sizeof(struct stk_decode_state),
	.flags = STK_OP_RANDOM,
	.classes = STK_CLASS_WINDOW | STK_CLASS_POINTWISE,
	.classify = stk__decode_classify,
	.infer = decode_random_crop_infer,
	.lower = stk__decode_lower,
	.extent = stk__decode_extent,
	.encoded = stk__decode_encoded,
	.fetch = stk__decode_fetch,
};
