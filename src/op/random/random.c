/* SPDX-License-Identifier: Apache-2.0 */
#include "op/random/random.h"

#include "kernel/convert/convert.h"

#include <string.h>

const struct stk_arg_def stk__random_group[] = {
	{.name = "shape",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct stk_random_args, shape),
		.min = 0,
		.max = 0x1p40,
		.shapes = true,
		.doc = "Shape of the draws. Default: a scalar, or the shape of the input if there is one."},
	STK_ARG(struct stk_random_args, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output; for integer types, draws are rounded. Default: the operator's own type, see above."),
	STK_ARG(struct stk_random_args, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

enum stk_status stk__random_infer(
	const struct stk_call *call, const struct stk_random_args *args, enum stk_dtype fallback, struct stk_error *err)
{
	struct stk_desc *out = &call->out[0].desc;
	*out = (struct stk_desc){.dtype = args->dtype < 0 ? fallback : (enum stk_dtype)args->dtype};
	if (stk__varies(call, &args->shape)) {
		out->ndim = -1;
		return STK_OK;
	}
	if (args->shape.count >= 0 && call->n_in > 0)
		return stk__fail(err, STK_INVALID, "the shape is given twice, by an input and by shape: choose one");
	if (call->n_in > 0) {
		out->ndim = call->in[0].desc.ndim; /* without the layout, as in DALI */
		memcpy(out->shape, call->in[0].desc.shape, sizeof out->shape);
	} else if (args->shape.count >= 0) {
		if (args->shape.count > STK_MAX_DIMS)
			return stk__fail(err, STK_INVALID, "shape has %d dims; tensors have up to %d", args->shape.count, STK_MAX_DIMS);
		out->ndim = args->shape.count;
		for (int32_t d = 0; d < out->ndim; d++)
			out->shape[d] = args->shape.v[d];
	}
	return STK_OK;
}

void stk__random_store(const struct stk_tensor *out, const double *draws, int64_t n)
{
	stk__convert(out->data, out->desc.dtype, draws, STK_FLOAT64, n);
}
