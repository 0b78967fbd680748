/* SPDX-License-Identifier: Apache-2.0 */
#include "op/filter/regions.h"

#include "kernel/convert/convert.h"
#include "kernel/pointwise/pointwise.h"
#include "op/geometry/slice_args.h"

#include <string.h>

const struct stk_arg_def stk__regions_group[] = {
	STK_ARG(struct stk_regions, anchor, STK_ARG_FLOATS, "[]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Start of each region: a coordinate for each of the axes, region after region. Default: 0 everywhere."),
	STK_ARG(struct stk_regions, shape, STK_ARG_FLOATS, "[]", STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Extents of the regions, given in the same way. Default: no regions."),
	STK_ARG(struct stk_regions, axes, STK_ARG_INTS, NULL, STK_FREE, STK_SCALAR_OK,
		"Dims to which anchor and shape apply; negative ones count from the end. Regions take the whole of other dims. Default: all "
		"but the channels."),
	STK_ARG(struct stk_regions, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0, "The same as letters of the layout."),
	STK_ARG(struct stk_regions, centered_anchor, STK_ARG_BOOL, "false", STK_FREE, 0, "anchor is the middle of a region."),
	STK_ARG(struct stk_regions, normalized, STK_ARG_BOOL, "false", STK_FREE, 0,
		"anchor and shape are fractions of the extents, 0 to 1, instead of elements. Excludes the two below."),
	STK_ARG(struct stk_regions, normalized_anchor, STK_ARG_BOOL, "false", STK_FREE, 0, "The same for anchor only."),
	STK_ARG(struct stk_regions, normalized_shape, STK_ARG_BOOL, "false", STK_FREE, 0, "The same for shape only."),
	STK_ARG_END,
};

static int32_t region_axes(const struct stk_regions *a, const struct stk_desc *desc, int32_t axes[STK_MAX_DIMS], struct stk_error *err)
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

/* Returns the number of regions that the arguments anchor and shape define over n axes; -1, with *err set, if their counts do not fit together. */
static int32_t count_regions(const struct stk_regions *a, int32_t n, struct stk_error *err)
{
	int32_t anchors = a->anchor.count > 0 ? a->anchor.count : 0, shapes = a->shape.count > 0 ? a->shape.count : 0;
	enum stk_status s = STK_OK;
	if (anchors && anchors != shapes)
		s = stk__fail(err, STK_INVALID, "anchor has %d values and shape %d: give both for each region", anchors, shapes);
	else if (shapes && (n == 0 || shapes % n != 0))
		s = stk__fail(err, STK_INVALID, "shape has %d values for %d axes: give one for each axis, region after region", shapes, n);
	return s ? -1 : shapes ? shapes / n : 0;
}

enum stk_status stk__regions_infer(const struct stk_call *call, const struct stk_regions *a, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axes[STK_MAX_DIMS];
	call->out[0].desc = *in;
	if (a->normalized && (a->normalized_anchor || a->normalized_shape))
		return stk__fail(err, STK_INVALID,
			"normalized applies to both anchor and shape: leave it out, or leave out normalized_anchor and normalized_shape");
	if (in->ndim < 0)
		return STK_OK;
	int32_t n = region_axes(a, in, axes, err);
	if (n < 0)
		return (enum stk_status) - n;
	bool known = !stk__varies(call, &a->anchor) && !stk__varies(call, &a->shape);
	return known && count_regions(a, n, err) < 0 ? STK_INVALID : STK_OK;
}

static int64_t bound_of(float x, int64_t extent)
{
	return !(x > 0) ? 0 : x >= (float)extent ? extent : (int64_t)x;
}

/* Sets bounds[] to the start and end, along a dim of this extent, for value i of anchor and of shape. Computes in float32, as DALI does: 0.35 of 20 is 7. */
static void fill_bounds(const struct stk_regions *a, int32_t i, int64_t extent, int64_t bounds[2])
{
	float size = a->shape.v[i], start = a->anchor.count > 0 ? a->anchor.v[i] : 0;
	size *= a->normalized || a->normalized_shape ? (float)extent : 1;
	start *= a->normalized || a->normalized_anchor ? (float)extent : 1;
	start -= a->centered_anchor ? size / 2 : 0;
	bounds[0] = bound_of(start, extent);
	bounds[1] = bound_of(start + size, extent);
}

/* Converts a fill value to an element of type `dtype` at `to`. Whole types except bool drop the fraction, as in DALI. */
static void store_fill(uint8_t *to, enum stk_dtype dtype, float value)
{
	value = stk__dtype_whole(dtype) && dtype != STK_BOOL ? truncf(value) : value;
	stk__convert(to, dtype, &value, STK_FLOAT, 1);
}

/* Sets e->ndim and e->shape to those of the tensor, except that the last dim with bounds is joined with the dims after it, all of whose elements are in a
 * region. Returns the number of elements in one step along the last dim with bounds. */
static int64_t join_dims(const struct stk_desc *in, const int32_t *axes, int32_t n, struct stk_pointwise_erase *e)
{
	int64_t run = 1;
	e->ndim = 1;
	for (int32_t i = 0; i < n; i++)
		e->ndim = axes[i] + 1 > e->ndim ? axes[i] + 1 : e->ndim;
	for (int32_t d = e->ndim; d < in->ndim; d++)
		run *= in->shape[d];
	for (int32_t d = 0; d < e->ndim; d++)
		e->shape[d] = (d < in->ndim ? in->shape[d] : 1) * (d == e->ndim - 1 ? run : 1);
	return run;
}

static enum stk_status make_constants(const struct stk_call *call, const struct stk_regions *a, struct stk_floats fill_value,
	const int32_t *axes, int32_t n, struct stk_regions_job *job, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	size_t fills = (size_t)fill_value.count;
	struct stk_pointwise_erase *e = &job->pointwise.erase;
	int64_t run = join_dims(in, axes, n, e);
	job->bytes = 8 * fills + sizeof(int64_t) * 2 * (size_t)e->regions * (size_t)e->ndim;
	job->constants = stk__arena_take(call->tools->arena, job->bytes);
	if (!job->constants)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d regions", e->regions);
	memset(job->constants, 0, 8 * fills);
	for (size_t k = 0; k < fills; k++)
		store_fill(job->constants + 8 * k, in->dtype, fill_value.v[k]);
	int64_t *bounds = (int64_t *)(void *)(job->constants + 8 * fills);
	for (int32_t r = 0; r < e->regions; r++, bounds += 2 * e->ndim) {
		for (int32_t d = 0; d < e->ndim; d++) {
			bounds[2 * d] = 0;
			bounds[2 * d + 1] = e->shape[d];
		}
		for (int32_t i = 0; i < n; i++) {
			int64_t *b = &bounds[2 * axes[i]];
			fill_bounds(a, r * n + i, in->shape[axes[i]], b);
			b[0] *= axes[i] == e->ndim - 1 ? run : 1;
			b[1] *= axes[i] == e->ndim - 1 ? run : 1;
		}
	}
	return STK_OK;
}

enum stk_status stk__regions_job(const struct stk_call *call, const struct stk_regions *a, struct stk_floats fills,
	struct stk_regions_job *job, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	int32_t axes[STK_MAX_DIMS], n = region_axes(a, in, axes, err), channels = stk__layout_find(in, 'C');
	*job = (struct stk_regions_job){.pointwise = {.op = STK_POINTWISE_ERASE, .erase = {.n_fills = fills.count, .fill_divisor = 1}}};
	struct stk_pointwise_erase *e = &job->pointwise.erase;
	e->regions = n < 0 ? -1 : count_regions(a, n, err);
	if (e->regions < 0)
		return STK_INVALID;
	for (int32_t d = 0; d < in->ndim; d++)
		e->fill_divisor *= channels >= 0 && d > channels ? in->shape[d] : 1;
	return make_constants(call, a, fills, axes, n, job, err);
}
