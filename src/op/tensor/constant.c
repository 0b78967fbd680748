/* SPDX-License-Identifier: Apache-2.0
 * constant: the same tensor for every sample. */
#include "kernel/convert/convert.h"
#include "op/op.h"

#include <string.h>

struct constant {
	struct stk_floats fdata;
	struct stk_ints idata, shape;
	int32_t dtype;
	const char *layout;
};

static const struct stk_arg_def constant_args[] = {
	STK_ARG(struct constant, fdata, STK_ARG_FLOATS, NULL, STK_FREE, STK_SCALAR_OK | STK_INFINITE | STK_NAN,
		"Values in row-major order; one value fills the whole shape."),
	STK_ARG(struct constant, idata, STK_ARG_INTS, NULL, STK_FREE, STK_SCALAR_OK, "Whole numbers, instead of fdata."),
	STK_ARG(struct constant, shape, STK_ARG_INTS, NULL, (0, 0x1p40), STK_SCALAR_OK,
		"Shape. Default: one dim, as long as the list of values."),
	STK_ARG(struct constant, dtype, STK_ARG_DTYPE, NULL, (0, STK_INTERP_TYPE), 0, "Type; default: float32 for fdata, int32 for idata."),
	STK_ARG(struct constant, layout, STK_ARG_STRING, NULL, STK_FREE, 0, "Layout; default: none."),
	STK_ARG_END,
};

/* Maximum size of the tensor, which is filled when the pipeline is made. A larger tensor means a mistake in the shape; if memory is overcommitted, filling it
 * would get the process killed. */
#define MOST_BYTES ((int64_t)1 << 30)

static int32_t value_count(const struct constant *a)
{
	return a->fdata.count >= 0 ? a->fdata.count : a->idata.count;
}

static enum stk_status describe(const struct constant *a, struct stk_desc *out, struct stk_error *err)
{
	int32_t n = value_count(a);
	if ((a->fdata.count >= 0) == (a->idata.count >= 0))
		return stk__fail(err, STK_INVALID, "give either fdata or idata");
	*out = (struct stk_desc){.dtype = a->dtype >= 0         ? (enum stk_dtype)a->dtype
					  : a->fdata.count >= 0 ? STK_FLOAT
								: STK_INT32,
		.ndim = 1};
	out->shape[0] = n;
	if (a->shape.count > STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "shape has %d dims; tensors have up to %d", a->shape.count, STK_MAX_DIMS);
	if (a->shape.count >= 0) {
		out->ndim = a->shape.count;
		for (int32_t d = 0; d < out->ndim; d++)
			out->shape[d] = a->shape.v[d];
	}
	if (stk_desc_bytes(out) < 0 || (n != 1 && stk_desc_elements(out) != n))
		return stk__fail(err, STK_SHAPE, "%d values do not fill a shape of %lld: give as many, or one", n,
			(long long)stk_desc_elements(out));
	if (stk_desc_bytes(out) > MOST_BYTES)
		return stk__fail(err, STK_LIMIT, "a constant of %lld bytes; it may have up to %lld", (long long)stk_desc_bytes(out),
			(long long)MOST_BYTES);
	if (a->layout && a->layout[0]) {
		if (strlen(a->layout) != (size_t)out->ndim)
			return stk__fail(err, STK_INVALID, "layout \"%s\" has %zu letters; the constant has %d dims", a->layout,
				strlen(a->layout), out->ndim);
		memcpy(out->layout, a->layout, (size_t)out->ndim + 1);
	}
	return STK_OK;
}

static enum stk_status constant_setup(const void *args, void **shared, struct stk_error *err)
{
	const struct constant *a = args;
	struct stk_desc d;
	enum stk_status s = describe(a, &d, err);
	if (s)
		return s;
	int64_t n = stk_desc_elements(&d), given = value_count(a);
	size_t element = stk_dtype_size(d.dtype);
	char *data = stk__alloc((size_t)n * element + STK_ARENA_SLACK);
	if (!data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a constant of %lld values", (long long)n);
	const void *from = a->fdata.count >= 0 ? (const void *)a->fdata.v : a->idata.v;
	stk__convert(data, stk__dtype_stored(d.dtype), from, a->fdata.count >= 0 ? STK_FLOAT : STK_INT64, n < given ? n : given);
	for (int64_t i = given; i < n; i++)
		memcpy(data + (size_t)i * element, data, element);
	*shared = data;
	return STK_OK;
}

static enum stk_status constant_infer(const struct stk_call *call, struct stk_error *err)
{
	call->out[0].data = (void *)(uintptr_t)call->shared; /* all samples share the tensor that setup has filled */
	return describe(call->args, &call->out[0].desc, err);
}

static enum stk_status constant_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	memcpy(call->out[0].data, call->shared, (size_t)stk_desc_bytes(&call->out[0].desc));
	return STK_OK;
}

const struct stk_op_def stk__op_constant = {
	.name = "constant",
	.doc = "Gives every sample the same tensor.",
	.args = constant_args,
	.args_size = sizeof(struct constant),
	.flags = STK_OP_CLONED | STK_OP_FIXED,
	.setup = constant_setup,
	.teardown = stk__free,
	.infer = constant_infer,
	.run_cpu = constant_run,
};
