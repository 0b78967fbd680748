/* SPDX-License-Identifier: Apache-2.0
 * erase: fills regions of a tensor. */
#include "kernel/convert/convert.h"
#include "op/slice_args.h"

#include <string.h>

struct erase {
	struct stk_floats anchor, shape, fill_value;
	struct stk_ints axes;
	const char *axis_names;
	bool centered_anchor, normalized, normalized_anchor, normalized_shape;
};

static const struct stk_arg_def erase_args[] = {
	STK_ARG(struct erase, anchor, STK_ARG_FLOATS, "[]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Where each region begins: a coordinate for each of the axes, region after region. Default: 0 everywhere."),
	STK_ARG(struct erase, shape, STK_ARG_FLOATS, "[]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Extents of the regions, given in the same way. Default: there are none."),
	STK_ARG(struct erase, fill_value, STK_ARG_FLOATS, "[0.0]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"What regions are filled with; integers take its whole part and saturate. One value, or one for each channel (dim C)."),
	STK_ARG(struct erase, axes, STK_ARG_INTS, NULL, (-STK_MAX_DIMS, STK_MAX_DIMS - 1), STK_SCALAR_OK,
		"Dims that anchor and shape are about; negative ones count from the end. Regions take all of the others. Default: all but the "
		"channels."),
	STK_ARG(struct erase, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0, "The same by letters of the layout."),
	STK_ARG(struct erase, centered_anchor, STK_ARG_BOOL, "false", STK_FREE, 0, "anchor says where the middle of a region is."),
	STK_ARG(struct erase, normalized, STK_ARG_BOOL, "false", STK_FREE, 0,
		"anchor and shape are shares of the extents, 0 to 1, instead of elements. Excludes the two below."),
	STK_ARG(struct erase, normalized_anchor, STK_ARG_BOOL, "false", STK_FREE, 0, "The same of anchor alone."),
	STK_ARG(struct erase, normalized_shape, STK_ARG_BOOL, "false", STK_FREE, 0, "The same of shape alone."),
	STK_ARG_END,
};

static int32_t erase_axes(const struct erase *a, const struct stk_desc *desc, int32_t axes[STK_MAX_DIMS], struct stk_error *err)
{
	bool named = a->axis_names && a->axis_names[0];
	if (named || a->axes.count > 0)
		return stk__axes_of(named ? (struct stk_ints){.count = -1} : a->axes, a->axis_names, desc, axes, err);
	int32_t n = 0, channels = stk__layout_find(desc, 'C');
	for (int32_t d = 0; d < desc->ndim; d++)
		if (d != channels)
			axes[n++] = d;
	return n;
}

/* How many regions anchor and shape name over n axes; < 0: they do not fit. */
static int32_t count_regions(const struct erase *a, int32_t n, struct stk_error *err)
{
	int32_t anchors = a->anchor.count > 0 ? a->anchor.count : 0, shapes = a->shape.count > 0 ? a->shape.count : 0;
	enum stk_status s = STK_OK;
	if (anchors && anchors != shapes)
		s = stk__fail(err, STK_INVALID, "anchor has %d values and shape %d: give both for each region", anchors, shapes);
	else if (shapes && (n == 0 || shapes % n != 0))
		s = stk__fail(err, STK_INVALID, "shape has %d values for %d axes: give one for each axis, region after region", shapes, n);
	return s ? -1 : shapes ? shapes / n : 0;
}

static enum stk_status erase_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct erase *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axes[STK_MAX_DIMS];
	call->out[0].desc = *in;
	if (a->normalized && (a->normalized_anchor || a->normalized_shape))
		return stk__fail(err, STK_INVALID,
			"normalized is about anchor and shape both: give it alone, or normalized_anchor and normalized_shape");
	if (in->ndim < 0)
		return STK_OK;
	int32_t n = erase_axes(a, in, axes, err), channels = stk__layout_find(in, 'C');
	if (n < 0)
		return STK_INVALID;
	if (!stk__varies(call, &a->anchor) && !stk__varies(call, &a->shape) && count_regions(a, n, err) < 0)
		return STK_INVALID;
	if (stk__varies(call, &a->fill_value) || a->fill_value.count == 1)
		return STK_OK;
	if (channels < 0)
		return stk__fail(err, STK_INVALID, "fill_value has %d values, and the input (layout \"%s\") no channels: give one",
			a->fill_value.count, in->layout);
	return in->shape[channels] < 0 ? STK_OK : stk__check_per_channel("fill_value", a->fill_value, in->shape[channels], err);
}

/* What the jobs read: the fills, in 8 bytes each, and the bounds of all regions. */
struct constants {
	uint8_t *data;
	size_t bytes;
};

static int64_t bound_of(float x, int64_t extent)
{
	return !(x > 0) ? 0 : x >= (float)extent ? extent : (int64_t)x;
}

/* The i-th value's bounds along a dim of this extent. In float32, as DALI computes them: 0.35 of 20 is 7. */
static void fill_bounds(const struct erase *a, int32_t i, int64_t extent, int64_t bounds[2])
{
	float size = a->shape.v[i], start = a->anchor.count > 0 ? a->anchor.v[i] : 0;
	size *= a->normalized || a->normalized_shape ? (float)extent : 1;
	start *= a->normalized || a->normalized_anchor ? (float)extent : 1;
	start -= a->centered_anchor ? size / 2 : 0;
	bounds[0] = bound_of(start, extent);
	bounds[1] = bound_of(start + size, extent);
}

/* Integer types drop the fraction, as in DALI. */
static void store_fill(uint8_t *to, enum stk_dtype dtype, float value)
{
	value = stk__dtype_whole(dtype) && dtype != STK_BOOL ? truncf(value) : value;
	stk__convert(to, dtype, &value, STK_FLOAT, 1);
}

static enum stk_status make_constants(
	const struct stk_call *call, int32_t regions, const int32_t *axes, int32_t n, struct constants *out, struct stk_error *err)
{
	const struct erase *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	size_t fills = (size_t)a->fill_value.count;
	out->bytes = 8 * fills + sizeof(int64_t) * 2 * (size_t)regions * (size_t)in->ndim;
	out->data = stk__arena_take(call->tools->arena, out->bytes);
	if (!out->data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d regions", regions);
	memset(out->data, 0, 8 * fills);
	for (size_t k = 0; k < fills; k++)
		store_fill(out->data + 8 * k, in->dtype, a->fill_value.v[k]);
	int64_t *bounds = (int64_t *)(void *)(out->data + 8 * fills);
	for (int32_t r = 0; r < regions; r++, bounds += 2 * in->ndim) {
		for (int32_t d = 0; d < in->ndim; d++) {
			bounds[2 * d] = 0;
			bounds[2 * d + 1] = in->shape[d];
		}
		for (int32_t i = 0; i < n; i++)
			fill_bounds(a, r * n + i, in->shape[axes[i]], &bounds[2 * axes[i]]);
	}
	return STK_OK;
}

static enum stk_status erase_lower_array(const struct stk_call *call, struct stk_array_jobs *jobs, struct stk_error *err)
{
	const struct erase *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_pointwise p = {
		.op = STK_POINTWISE_ERASE, .erase = {.ndim = in->ndim, .n_fills = a->fill_value.count, .fill_divisor = 1}};
	struct constants constants;
	int32_t axes[STK_MAX_DIMS], n = erase_axes(a, in, axes, err), channels = stk__layout_find(in, 'C');
	p.erase.regions = n < 0 ? -1 : count_regions(a, n, err);
	if (p.erase.regions < 0)
		return STK_INVALID;
	enum stk_status s = make_constants(call, p.erase.regions, axes, n, &constants, err);
	if (s)
		return s;
	for (int32_t d = 0; d < in->ndim; d++) {
		p.erase.shape[d] = in->shape[d];
		p.erase.fill_divisor *= channels >= 0 && d > channels ? in->shape[d] : 1;
	}
	return stk__array_pointwise(jobs, &p, constants.data, constants.bytes, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_erase = {
	.name = "erase",
	.doc = "Fills regions of tensors with a value.\n\n"
	       "Tensors have any shape, type and layout. A region takes elements from the whole part of its anchor to that of anchor + shape; "
	       "what lies outside of the tensor is left out.",
	.inputs = {1, 1},
	.args = erase_args,
	.args_size = sizeof(struct erase),
	.infer = erase_infer,
	.lower_array = erase_lower_array,
};
