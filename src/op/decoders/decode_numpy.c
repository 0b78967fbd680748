/* SPDX-License-Identifier: Apache-2.0
 * decoders.numpy: an array from the bytes of an .npy file. */
#include "op/decoders/npy_array.h"

struct decode_numpy {
	int32_t dtype;
};

static const struct stk_arg_def decode_numpy_args[] = {
	STK_ARG(struct decode_numpy, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output, to which values are rounded. Default: the file's."),
	STK_ARG_END,
};

static enum stk_status decode_numpy_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_numpy *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	struct stk_npy_array *array = call->state;
	if ((in->desc.ndim >= 0 && in->desc.ndim != 1) || (in->desc.dtype != STK_NO_DTYPE && in->desc.dtype != STK_UINT8))
		return stk__fail(err, STK_INVALID, "the input must be the bytes of a file, a uint8 tensor of 1 dim");
	call->out[0].desc = (struct stk_desc){.dtype = stk__dtype_or(a->dtype, STK_NO_DTYPE), .ndim = -1};
	if (stk__building(call))
		return STK_OK;
	enum stk_status s = stk__npy_array_take(call, in->data, (size_t)in->desc.shape[0], array, err);
	if (!s)
		stk__npy_array_place(array, stk__dtype_or(a->dtype, array->file.dtype), &call->out[0]);
	return s;
}

static enum stk_status decode_numpy_run(const struct stk_call *call, struct stk_error *err)
{
	return stk__npy_array_copy(call, call->state, 0, err);
}

const struct stk_op_def stk__op_decode_numpy = {
	.name = "decoders.numpy",
	.doc = "Makes an array from the bytes of an .npy file.\n\n"
	       "Like readers.numpy, but for bytes from another reader: a component of readers.webdataset, or a feature of "
	       "readers.tfrecord.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = decode_numpy_args,
	.args_size = sizeof(struct decode_numpy),
	.state_size = sizeof(struct stk_npy_array),
	.infer = decode_numpy_infer,
	.run_cpu = decode_numpy_run,
};
