/* SPDX-License-Identifier: Apache-2.0
 * peek_image_shape: the shape that decoders.image would output, read from the file's header. */
#include "kernel/convert/convert.h"
#include "op/op.h"

struct peek {
	bool adjust_orientation;
	int32_t dtype, image_type;
};

static const struct stk_arg_def peek_args[] = {
	STK_ARG(struct peek, adjust_orientation, STK_ARG_BOOL, "true", STK_FREE, 0, "Applies the image's EXIF orientation to the shape."),
	STK_ARG(struct peek, dtype, STK_ARG_DTYPE, "7", (0, STK_DTYPE_COUNT - 1), 0, "Type of the output."),
	STK_ARG(struct peek, image_type, STK_ARG_IMAGE_TYPE, "0", (0, 4), 0,
		"Type to which the image would be decoded; it determines the number of channels."),
	STK_ARG_END,
};

static enum stk_status peek_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct peek *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	if ((in->ndim >= 0 && in->ndim != 1) || (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8))
		return stk__fail(err, STK_INVALID, "the input must be the bytes of a file, a uint8 tensor of 1 dim");
	call->out[0].desc = (struct stk_desc){(enum stk_dtype)a->dtype, 1, {3}, ""};
	return STK_OK;
}

static enum stk_status peek_run(const struct stk_call *call, struct stk_error *err)
{
	const struct peek *a = call->args;
	struct stk_image_info info;
	enum stk_status s = stk__image_peek(call->in[0].data, (size_t)call->in[0].desc.shape[0], &call->tools->limits, &info, err);
	if (s)
		return s;
	int32_t w, h;
	stk__image_extent(&info, a->adjust_orientation, &w, &h);
	const int64_t shape[3] = {h, w, stk__image_channels(&info, (enum stk_image_type)a->image_type)};
	stk__convert(call->out[0].data, call->out[0].desc.dtype, shape, STK_INT64, 3);
	return STK_OK;
}

const struct stk_op_def stk__op_peek_image_shape = {
	.name = "peek_image_shape",
	.doc = "Reads the shape of an image from its header.\n\n"
	       "Outputs height, width and channels as decoders.image would make them, without decoding.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = peek_args,
	.args_size = sizeof(struct peek),
	.infer = peek_infer,
	.run_cpu = peek_run,
};
