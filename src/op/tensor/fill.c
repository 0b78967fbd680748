/* SPDX-License-Identifier: Apache-2.0
 * full, ones, zeros, and full_like, ones_like, zeros_like: tensors filled with one value, or with a tensor that is broadcast. */
#include "kernel/convert/convert.h"
#include "kernel/copy/copy.h"
#include "op/dims.h"

#include <string.h>

struct fill {
	struct stk_ints shape;
	const char *layout;
	int32_t dtype;
};

#define SHAPE_ARGS                                                                                                                         \
	{.name = "shape",                                                                                                                  \
		.type = STK_ARG_INTS,                                                                                                      \
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,                                                                                   \
		.offset = offsetof(struct fill, shape),                                                                                    \
		.min = 0,                                                                                                                  \
		.max = 0x1p40,                                                                                                             \
		.shapes = true,                                                                                                            \
		.doc = "Shape of the output. Default: a scalar, or for `full` the shape of the value."},                                   \
		STK_ARG(struct fill, layout, STK_ARG_STRING, NULL, STK_FREE, 0,                                                            \
			"Layout of the output, a letter for each dim. Default: none.")

static const struct stk_arg_def full_args[] = {SHAPE_ARGS, STK_ARG_END};

static const struct stk_arg_def plain_args[] = {
	SHAPE_ARGS,
	STK_ARG(struct fill, dtype, STK_ARG_DTYPE, "6", (0, STK_DTYPE_COUNT - 1), 0, "Type of the output."),
	STK_ARG_END,
};

static const struct stk_arg_def like_args[] = {
	STK_ARG(struct fill, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0, "Type of the output. Default: the input's."),
	STK_ARG_END,
};

static const struct stk_arg_def full_like_args[] = {STK_ARG_END};

/* Sets the output's shape to the argument `shape` or, if it is not given, to the shape of `otherwise`. Sets the layout if the argument `layout` is given. */
static enum stk_status shape_of(const struct stk_call *call, const struct stk_desc *otherwise, struct stk_error *err)
{
	const struct fill *a = call->args;
	struct stk_desc *out = &call->out[0].desc;
	out->ndim = stk__varies(call, &a->shape) ? -1 : a->shape.count < 0 ? otherwise->ndim : a->shape.count;
	if (out->ndim > STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "shape has %d dims; tensors have up to %d", out->ndim, STK_MAX_DIMS);
	if (out->ndim > 0)
		memcpy(out->shape, a->shape.count < 0 ? otherwise->shape : a->shape.v, (size_t)out->ndim * sizeof *out->shape);
	if (out->ndim < 0 || !a->layout || !a->layout[0])
		return STK_OK;
	if (strlen(a->layout) != (size_t)out->ndim)
		return stk__fail(
			err, STK_INVALID, "layout \"%s\" has %zu letters; the output has %d dims", a->layout, strlen(a->layout), out->ndim);
	memcpy(out->layout, a->layout, (size_t)out->ndim);
	return STK_OK;
}

/* Fails unless `value` can be broadcast to the output. */
static enum stk_status check_broadcast(const struct stk_desc *value, const struct stk_desc *out, struct stk_error *err)
{
	for (int32_t k = value->ndim - 1, d = out->ndim - 1; out->ndim >= 0 && k >= 0; k--, d--) {
		int64_t have = value->shape[k], want = d < 0 ? 1 : out->shape[d];
		if (have < 0 || want < 0 || have == 1 || have == want)
			continue;
		if (d < 0)
			return stk__fail(err, STK_SHAPE, "a value of %d dims does not fit into an output of %d", value->ndim, out->ndim);
		return stk__fail(err, STK_SHAPE, "the value has extent %lld in dim %d where the output has %lld; it must be 1 or the same",
			(long long)have, k, (long long)want);
	}
	return STK_OK;
}

static enum stk_status full_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *value = &call->in[0].desc;
	call->out[0].desc = (struct stk_desc){.dtype = value->dtype};
	enum stk_status s = shape_of(call, value, err);
	return s ? s : check_broadcast(value, &call->out[0].desc, err);
}

static enum stk_status full_like_infer(const struct stk_call *call, struct stk_error *err)
{
	call->out[0].desc = call->in[0].desc;
	return check_broadcast(&call->in[1].desc, &call->out[0].desc, err);
}

static enum stk_status plain_infer(const struct stk_call *call, struct stk_error *err)
{
	static const struct stk_desc scalar = {0};
	const struct fill *a = call->args;
	call->out[0].desc = (struct stk_desc){.dtype = (enum stk_dtype)a->dtype};
	return shape_of(call, &scalar, err);
}

static enum stk_status like_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct fill *a = call->args;
	call->out[0].desc = call->in[0].desc;
	call->out[0].desc.dtype = stk__dtype_or(a->dtype, call->in[0].desc.dtype);
	return STK_OK;
}

/* Fills the output with the last input, broadcast and converted to the output's type. */
static enum stk_status broadcast_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_tensor *value = &call->in[call->n_in - 1];
	const struct stk_desc *out = &call->out[0].desc;
	struct stk_copy_dim dims[STK_MAX_DIMS];
	int64_t src = 1, dst = 1;
	if (!stk_desc_elements(out)) /* strides of an empty tensor may overflow */
		return STK_OK;
	for (int32_t d = out->ndim - 1, k = value->desc.ndim - 1; d >= 0; d--, k--) {
		bool repeats = k < 0 || value->desc.shape[k] == 1;
		dims[d] = (struct stk_copy_dim){out->shape[d], 0, 1, out->shape[d], dst, repeats ? 0 : src};
		dst *= out->shape[d];
		src *= k < 0 ? 1 : value->desc.shape[k];
	}
	return stk__job_copy(jobs, value, &call->out[0], dims, out->ndim, NULL, false, err);
}

/* Fills the output with `value`, by a copy job whose window contains no element of its source: such a job writes only its fill value. */
static enum stk_status fill_with(const struct stk_call *call, int64_t value, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_tensor *out = &call->out[0];
	uint64_t element = 0;
	struct stk_copy_dim all = {.size = stk_desc_elements(&out->desc), .step = 1, .limit = 0, .dst = 1, .src = 1};
	stk__convert(&element, out->desc.dtype, &value, STK_INT64, 1);
	return stk__job_copy(jobs, out, out, &all, 1, &element, false, err);
}

static enum stk_status ones_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	return fill_with(call, 1, jobs, err);
}

static enum stk_status zeros_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	return fill_with(call, 0, jobs, err);
}

const struct stk_op_def stk__op_full = {
	.name = "full",
	.doc = "Makes tensors of a given shape, filled with a value.\n\n"
	       "The value is a number or a tensor, which is broadcast as in NumPy; the output has its type.",
	.inputs = {1, 1},
	.args = full_args,
	.args_size = sizeof(struct fill),
	.infer = full_infer,
	.lower_jobs = broadcast_lower_jobs,
};

const struct stk_op_def stk__op_full_like = {
	.name = "full_like",
	.doc = "Makes tensors of the shape, type and layout of the first input, filled with the second.\n\n"
	       "The value is broadcast as in NumPy, and converted as by cast.",
	.inputs = {2, 2},
	.args = full_like_args,
	.infer = full_like_infer,
	.lower_jobs = broadcast_lower_jobs,
};

const struct stk_op_def stk__op_ones = {
	.name = "ones",
	.doc = "Makes tensors of a given shape, filled with ones.",
	.args = plain_args,
	.args_size = sizeof(struct fill),
	.flags = STK_OP_CLONED,
	.infer = plain_infer,
	.lower_jobs = ones_lower_jobs,
};

const struct stk_op_def stk__op_zeros = {
	.name = "zeros",
	.doc = "Makes tensors of a given shape, filled with zeros.",
	.args = plain_args,
	.args_size = sizeof(struct fill),
	.flags = STK_OP_CLONED,
	.infer = plain_infer,
	.lower_jobs = zeros_lower_jobs,
};

const struct stk_op_def stk__op_ones_like = {
	.name = "ones_like",
	.doc = "Makes tensors of the shape and layout of the input, filled with ones.",
	.inputs = {1, 1},
	.args = like_args,
	.args_size = sizeof(struct fill),
	.infer = like_infer,
	.lower_jobs = ones_lower_jobs,
};

const struct stk_op_def stk__op_zeros_like = {
	.name = "zeros_like",
	.doc = "Makes tensors of the shape and layout of the input, filled with zeros.",
	.inputs = {1, 1},
	.args = like_args,
	.args_size = sizeof(struct fill),
	.infer = like_infer,
	.lower_jobs = zeros_lower_jobs,
};
