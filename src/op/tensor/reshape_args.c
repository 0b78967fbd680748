/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tensor/reshape_args.h"

#include "kernel/convert/convert.h"

#include <string.h>

const struct stk_arg_def stk__reshape_group[] = {
	{.name = "shape",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct stk_reshape_args, shape),
		.min = -0x1p40,
		.max = 0x1p40,
		.shapes = true,
		.doc = "Extents of the output; one may be negative, and then follows from the others. Default: the second input, or no "
		       "change."},
	{.name = "rel_shape",
		.type = STK_ARG_FLOATS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct stk_reshape_args, rel_shape),
		.min = -0x1p24,
		.max = 0x1p24,
		.shapes = true,
		.doc = "Extents as factors of the input's, instead of shape; one may be negative. There are at most as many as the input "
		       "has dims, and one more if that one is negative."},
	STK_ARG(struct stk_reshape_args, src_dims, STK_ARG_INTS, NULL, (-1, STK_MAX_DIMS - 1), STK_SCALAR_OK,
		"For each dim of the output, the dim of the input from which it takes its extent (or of which rel_shape is a factor); -1 "
		"for a new dim of extent 1."),
	STK_ARG(struct stk_reshape_args, layout, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Layout of the output, \"\" for none. Default: the input's if the number of dims stays."),
	STK_ARG_END,
};

static enum stk_status fail_dims(int32_t n, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID, "%d extents are given; tensors have up to %d dims", n, STK_MAX_DIMS);
}

static enum stk_status check_sources(struct stk_ints src_dims, int32_t ndim, struct stk_error *err)
{
	for (int32_t i = 0; i < src_dims.count; i++)
		if (src_dims.v[i] >= ndim)
			return stk__fail(err, STK_INVALID, "src_dims has %lld, and the input has %d dims, which count from 0",
				(long long)src_dims.v[i], ndim);
	return STK_OK;
}

static enum stk_status extents_from_factors(
	const struct stk_reshape_args *a, const struct stk_desc *in, int32_t n, struct stk_desc *out, struct stk_error *err)
{
	out->ndim = n;
	for (int32_t i = 0; i < n; i++) {
		int64_t source = a->src_dims.count >= 0 ? a->src_dims.v[i] : i;
		int64_t extent = source < 0 || source >= in->ndim ? 1 : in->shape[source];
		float factor = a->rel_shape.count >= 0 ? a->rel_shape.v[i] : 1;
		if (source >= in->ndim && factor >= 0)
			return stk__fail(err, STK_INVALID,
				"dim %d of the output takes its extent from a dim that the input, with %d, does not have", i, in->ndim);
		out->shape[i] = factor < 0 || extent < 0 ? -1 : (int64_t)round((double)factor * (double)extent);
	}
	return STK_OK;
}

/* Sets the shape of *out to the requested extents; `complete` computes a negative one. Sets *open to true if the extents are in a second input, which has
 * no data while the graph is built. */
static enum stk_status read_extents(
	const struct stk_reshape_args *a, const struct stk_call *call, struct stk_desc *out, bool *open, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	int32_t given = (a->shape.count >= 0) + (a->rel_shape.count >= 0) + (call->n_in > 1);
	if (given > 1)
		return stk__fail(err, STK_INVALID, "the shape is given twice: choose one of shape, rel_shape and a second input");
	if (a->src_dims.count >= 0 && a->rel_shape.count >= 0 && a->src_dims.count != a->rel_shape.count)
		return stk__fail(err, STK_INVALID, "src_dims has %d values and rel_shape %d", a->src_dims.count, a->rel_shape.count);
	enum stk_status s = in->ndim < 0 ? STK_OK : check_sources(a->src_dims, in->ndim, err);
	if (s)
		return s;
	*open = false;
	if (call->n_in > 1) {
		const struct stk_tensor *t = &call->in[1];
		if (t->desc.dtype != STK_NO_DTYPE && (!stk__dtype_whole(t->desc.dtype) || t->desc.dtype == STK_BOOL))
			return stk__fail(err, STK_INVALID, "the shape must be whole numbers, not %s", stk_dtype_name(t->desc.dtype));
		if (t->desc.ndim >= 0 && t->desc.ndim != 1)
			return stk__fail(err, STK_SHAPE, "the shape must be a tensor of one dim, not of %d", t->desc.ndim);
		int64_t n = t->desc.ndim < 0 ? -1 : t->desc.shape[0];
		if (n > STK_MAX_DIMS)
			return fail_dims((int32_t)(n > INT32_MAX ? INT32_MAX : n), err);
		out->ndim = (int32_t)n;
		*open = !t->data;
		for (int32_t i = 0; *open && i < out->ndim; i++)
			out->shape[i] = -1;
		if (!*open)
			stk__convert(out->shape, STK_INT64, t->data, t->desc.dtype, n);
		return STK_OK;
	}
	int32_t n = a->shape.count >= 0       ? a->shape.count
		    : a->rel_shape.count >= 0 ? a->rel_shape.count
		    : a->src_dims.count >= 0  ? a->src_dims.count
					      : in->ndim;
	if (n > STK_MAX_DIMS)
		return fail_dims(n, err);
	if (a->shape.count < 0)
		return extents_from_factors(a, in, n, out, err);
	out->ndim = n;
	for (int32_t i = 0; i < n; i++)
		out->shape[i] = a->shape.v[i] < 0 ? -1 : a->shape.v[i];
	return STK_OK;
}

/* Replaces the negative extent, if there is one, such that the output has `elements` elements. Fails if it cannot have that number. */
static enum stk_status complete(int64_t elements, struct stk_desc *out, struct stk_error *err)
{
	int32_t open_dim = -1;
	int64_t product = 1;
	for (int32_t i = 0; i < out->ndim; i++) {
		if (out->shape[i] < 0 && open_dim >= 0)
			return stk__fail(err, STK_INVALID, "two extents are negative: only one can follow from the others");
		if (out->shape[i] < 0)
			open_dim = i;
		else if (__builtin_mul_overflow(product, out->shape[i], &product))
			return stk__fail(err, STK_INVALID, "the shape has too many elements");
	}
	if (open_dim >= 0 && product > 0 && elements % product == 0)
		out->shape[open_dim] = elements / product;
	else if (open_dim >= 0 || product != elements)
		return stk__fail(err, STK_SHAPE, "%lld elements do not fit into a shape of %lld%s", (long long)elements, (long long)product,
			open_dim >= 0 ? " times a whole number" : "");
	return STK_OK;
}

static void take_layout(const struct stk_reshape_args *a, const struct stk_desc *in, struct stk_desc *out)
{
	if (a->layout && strlen(a->layout) == (size_t)out->ndim)
		memcpy(out->layout, a->layout, (size_t)out->ndim + 1);
	else if (!a->layout && in->ndim == out->ndim)
		memcpy(out->layout, in->layout, sizeof out->layout);
}

/* Sets the layout, and the number of dims that it names, of an output with the dims of an input that are not known yet. */
static void expect_layout(const struct stk_reshape_args *a, struct stk_desc *out)
{
	size_t n = a->layout ? strlen(a->layout) : 0;
	if (n == 0 || n > STK_MAX_DIMS)
		return;
	out->ndim = (int32_t)n;
	for (size_t i = 0; i < n; i++)
		out->shape[i] = -1;
	memcpy(out->layout, a->layout, n + 1);
}

/* Sets the innermost extent so that the output has as many bytes as the input, or leaves it if it is not known yet. Call it if no shape is given. STK_SHAPE:
 * the bytes of the innermost dimension are not a whole number of elements, or a scalar's type gets another size. */
static enum stk_status fit_innermost(const struct stk_desc *in, struct stk_desc *out, struct stk_error *err)
{
	int64_t from = (int64_t)stk_dtype_size(in->dtype), to = (int64_t)stk_dtype_size(out->dtype);
	int64_t extent = out->ndim ? out->shape[out->ndim - 1] : 1;
	if (from == to || extent < 0)
		return STK_OK;
	if (out->ndim == 0 || extent * from % to)
		return stk__fail(err, STK_SHAPE, "%lld bytes of the innermost dim are not a whole number of %s; give a shape",
			(long long)(extent * from), stk_dtype_name(out->dtype));
	out->shape[out->ndim - 1] = extent * from / to;
	return STK_OK;
}

/* Sets *elements to the number of elements of the output's type in the input; -1: not known yet. STK_SHAPE: it is not a whole number. */
static enum stk_status count_elements(const struct stk_desc *in, enum stk_dtype dtype, int64_t *elements, struct stk_error *err)
{
	int64_t bytes = stk_desc_bytes(in), size = (int64_t)stk_dtype_size(dtype);
	*elements = stk_desc_elements(in);
	if (dtype == in->dtype || *elements < 0)
		return STK_OK;
	if (bytes % size)
		return stk__fail(err, STK_SHAPE, "%lld bytes are not a whole number of %s", (long long)bytes, stk_dtype_name(dtype));
	*elements = bytes / size;
	return STK_OK;
}

enum stk_status stk__reshape_infer(
	const struct stk_reshape_args *a, const struct stk_call *call, enum stk_dtype dtype, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	*out = (struct stk_desc){.dtype = dtype, .ndim = -1};
	bool open, fixed = a->shape.count >= 0 || call->n_in > 1, free = !fixed && a->rel_shape.count < 0;
	bool varies = stk__varies(call, &a->shape) || stk__varies(call, &a->rel_shape);
	if (in->ndim < 0 && free && a->src_dims.count < 0 && !varies)
		expect_layout(a, out);
	if ((in->ndim < 0 && !fixed) || varies || (dtype != in->dtype && in->dtype < 0))
		return STK_OK;
	enum stk_status s = read_extents(a, call, out, &open, err);
	if (s || out->ndim < 0 || (dtype != in->dtype && free && (s = fit_innermost(in, out, err))))
		return s;
	if (a->layout && a->layout[0] && (int32_t)strlen(a->layout) != out->ndim)
		return stk__fail(
			err, STK_INVALID, "layout \"%s\" has %zu letters; the output has %d dims", a->layout, strlen(a->layout), out->ndim);
	take_layout(a, in, out);
	int64_t elements;
	if (open || (s = count_elements(in, dtype, &elements, err)))
		return s;
	return elements >= 0 ? complete(elements, out, err) : STK_OK;
}
