/* SPDX-License-Identifier: Apache-2.0
 * decoders.image_crop: decodes a window of fixed extent. */
#include "op/decoders/decode.h"
#include "op/geometry/window_args.h"

struct decode_crop {
	struct stk_decode_args decode;
	struct stk_window_args window;
};

static const struct stk_arg_def decode_crop_args[] = {
	STK_ARG_GROUP(struct decode_crop, decode, stk__decode_group),
	STK_ARG_GROUP(struct decode_crop, window, stk__window_group),
	STK_ARG_END,
};

static enum stk_status decode_crop_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_crop *a = call->args;
	struct stk_decode_state *state = call->state;
	enum stk_status s = stk__decode_infer(call, err);
	if (s || (s = stk__window_of_args(&a->window, &state->whole, &state->window, err)) ||
		(s = stk__window_bound(&state->window, &state->whole, STK_BOUNDS_NO_POLICY, err)))
		return s;
	return stk__decode_keep(call, err);
}

const struct stk_op_def stk__op_decode_crop = {
	.name = "decoders.image_crop",
	.alias = "image_decoder_crop",
	.doc = "Decodes a window of an image.\n\n"
	       "Only the needed part is decoded; the pixels are those of decoders.image followed by crop.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = decode_crop_args,
	.args_size = sizeof(struct decode_crop),
	.state_size = sizeof(struct stk_decode_state),
	.classes = STK_CLASS_WINDOW | STK_CLASS_POINTWISE,
	.classify = stk__decode_classify,
	.infer = decode_crop_infer,
	.lower = stk__decode_lower,
	.extent = stk__decode_extent,
	.encoded = stk__decode_encoded,
	.fetch = stk__decode_fetch,
};
