/* SPDX-License-Identifier: Apache-2.0
 * decoders.image_slice: decodes a window given by indices or shares of the extents. */
#include "op/decoders/decode.h"
#include "op/geometry/slice_args.h"

struct decode_slice {
	struct stk_decode_args decode;
	struct stk_slice_args slice;
};

static const struct stk_arg_def decode_slice_args[] = {
	STK_ARG_GROUP(struct decode_slice, decode, stk__decode_group),
	STK_ARG_GROUP(struct decode_slice, slice, stk__slice_group),
	STK_ARG_END,
};

static enum stk_status decode_slice_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_slice *a = call->args;
	struct stk_decode_state *state = call->state;
	enum stk_status s = stk__decode_infer(call, err);
	if (s || (s = stk__window_of_slice(&a->slice, call, &state->whole, &state->window, err)) ||
		(s = stk__window_bound(&state->window, &state->whole, STK_BOUNDS_NO_POLICY, err)))
		return s;
	if (!stk__building(call) && (state->window.start[2] != 0 || state->window.extent[2] != state->whole.shape[2]))
		return stk__fail(err, STK_UNSUPPORTED, "a slice of channels cannot be decoded: decode the image, then slice it");
	return stk__decode_keep(call, err);
}

const struct stk_op_def stk__op_decode_slice = {
	.name = "decoders.image_slice",
	.alias = "image_decoder_slice",
	.doc = "Decodes a window of an image.\n\n"
	       "The window is given as for slice, by arguments or by two more inputs. Only the needed part is decoded; the pixels are "
	       "those of decoders.image\n"
	       "followed by slice.",
	.inputs = {1, 3},
	.host_inputs = 7,
	.args = decode_slice_args,
	.args_size = sizeof(struct decode_slice),
	.state_size = sizeof(struct stk_decode_state),
	.classes = STK_CLASS_WINDOW | STK_CLASS_POINTWISE,
	.classify = stk__decode_classify,
	.infer = decode_slice_infer,
	.lower = stk__decode_lower,
	.extent = stk__decode_extent,
	.encoded = stk__decode_encoded,
	.fetch = stk__decode_fetch,
};
