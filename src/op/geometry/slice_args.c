/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/slice_args.h"

#include "kernel/convert/convert.h"

#include <string.h>

#define BOUND(member, kind, text)                                                                                                          \
	{                                                                                                                                  \
		.name = #member, .type = kind, .flags = STK_PER_SAMPLE | STK_SCALAR_OK, .offset = offsetof(struct stk_slice_args, member), \
		.min = -0x1p40, .max = 0x1p40, .shapes = true, .doc = text                                                                 \
	}

const struct stk_arg_def stk__slice_group[] = {
	BOUND(start, STK_ARG_INTS, "First index along each of the axes; default: 0."),
	BOUND(end, STK_ARG_INTS, "Index after the last along each of the axes; default: the extent."),
	BOUND(shape, STK_ARG_INTS, "Extent of the window along each of the axes, instead of an end."),
	BOUND(rel_start, STK_ARG_FLOATS, "First index as a fraction of the extent; the result is rounded."),
	BOUND(rel_end, STK_ARG_FLOATS, "Index after the last as a fraction of the extent; the result is rounded."),
	BOUND(rel_shape, STK_ARG_FLOATS, "Extent of the window as a fraction of the tensor's, instead of an end."),
	{.name = "axes",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct stk_slice_args, axes),
		.min = -STK_MAX_DIMS,
		.max = STK_MAX_DIMS - 1,
		.shapes = true,
		.without_pass = true,
		.doc = "Dims to which the bounds apply, in this order; negative ones count from the end. Empty: all of them. Default: see "
		       "axis_names."},
	STK_ARG(struct stk_slice_args, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0,
		"The same as letters of the layout, instead of axes. Default: \"WH\"."),
	STK_ARG(struct stk_slice_args, normalized_anchor, STK_ARG_BOOL, "true", STK_FREE, 0,
		"If the second input holds floats, they are fractions of the extents; whole numbers are always indices."),
	STK_ARG(struct stk_slice_args, normalized_shape, STK_ARG_BOOL, "true", STK_FREE, 0,
		"The same for the third input, the extents of the window."),
	STK_ARG_END,
};

/* Sets *out to the dim with the user's number, where negative numbers count from the end. Fails if there is no such dim, or if before[0 .. n - 1] have it
 * already. */
static enum stk_status axis_of_number(
	int64_t axis, const struct stk_desc *desc, const int32_t *before, int32_t n, int32_t *out, struct stk_error *err)
{
	int64_t d = axis < 0 ? axis + desc->ndim : axis;
	if (d < 0 || d >= desc->ndim)
		return stk__fail(err, STK_SHAPE, "axis %lld is out of range for a tensor of %d dims: axes go from %d to %d",
			(long long)axis, desc->ndim, -desc->ndim, desc->ndim - 1);
	for (int32_t i = 0; i < n; i++)
		if (before[i] == d)
			return stk__fail(err, STK_INVALID, "axis %lld is given twice%s", (long long)axis,
				axis < 0 ? ", also counted from the start" : "");
	*out = (int32_t)d;
	return STK_OK;
}

/* Sets *out to the dim with this letter in the layout. Fails if there is no such dim, or if before[0 .. n - 1] have it already. */
static enum stk_status axis_of_letter(
	char letter, const struct stk_desc *desc, const int32_t *before, int32_t n, int32_t *out, struct stk_error *err)
{
	*out = stk__layout_find(desc, letter);
	if (*out < 0)
		return stk__fail(err, STK_INVALID, "axis \"%c\" is not in the layout \"%s\"; axes takes numbers", letter, desc->layout);
	for (int32_t i = 0; i < n; i++)
		if (before[i] == *out)
			return stk__fail(err, STK_INVALID, "axis \"%c\" is given twice in axis_names", letter);
	return STK_OK;
}

int32_t stk__axes_of(struct stk_ints axes, const char *names, const struct stk_desc *desc, int32_t out[STK_MAX_DIMS], struct stk_error *err)
{
	if (axes.count >= 0 && names)
		return -(int32_t)stk__fail(err, STK_INVALID, "axes and axis_names are both given: choose one");
	int32_t n = axes.count >= 0 ? axes.count : names ? (int32_t)strlen(names) : 0;
	enum stk_status s =
		n > desc->ndim ? stk__fail(err, STK_INVALID, "%d axes are given for a tensor of %d dims", n, desc->ndim) : STK_OK;
	for (int32_t i = 0; i < n && s == STK_OK; i++)
		s = axes.count >= 0 ? axis_of_number(axes.v[i], desc, out, i, &out[i], err)
				    : axis_of_letter(names[i], desc, out, i, &out[i], err);
	return s ? -(int32_t)s : n;
}

/* The start, end or shape of a window along an axis: a number of elements, or a fraction of the axis's extent. */
struct bound {
	bool is_set, relative;
	double value;
	bool wide; /* a fraction from an input, which is multiplied in double; fractions from arguments are multiplied in float32, as in DALI */
};

struct bounds {
	struct bound start, end, shape;
};

static struct bound bound_of(struct stk_ints absolute, struct stk_floats relative, int32_t i)
{
	if (absolute.count > 0)
		return (struct bound){true, false, (double)absolute.v[absolute.count == 1 ? 0 : i], false};
	if (relative.count > 0)
		return (struct bound){true, true, (double)relative.v[relative.count == 1 ? 0 : i], false};
	return (struct bound){false, true, 0, false};
}

static enum stk_status check_pair(const char *name, int32_t absolute, int32_t relative, int32_t *n, struct stk_error *err)
{
	if (absolute >= 0 && relative >= 0)
		return stk__fail(err, STK_INVALID, "%s and rel_%s are both given: choose one", name, name);
	int32_t count = absolute >= 0 ? absolute : relative;
	if (count > 1 && *n > 1 && count != *n)
		return stk__fail(err, STK_INVALID, "%s has %d values, but other bounds have %d", name, count, *n);
	*n = count > *n ? count : *n;
	return STK_OK;
}

/* Sets *n to the number of values in the bounds, where a single value applies to all axes; -1: no bounds are given. Fails if a bound is given twice, if an
 * end and a shape are given, or if two bounds have different numbers of values. */
static enum stk_status count_args(const struct stk_slice_args *a, int32_t *n, struct stk_error *err)
{
	*n = -1;
	enum stk_status s = check_pair("start", a->start.count, a->rel_start.count, n, err);
	if (s || (s = check_pair("end", a->end.count, a->rel_end.count, n, err)) ||
		(s = check_pair("shape", a->shape.count, a->rel_shape.count, n, err)))
		return s;
	bool end = a->end.count >= 0 || a->rel_end.count >= 0, shape = a->shape.count >= 0 || a->rel_shape.count >= 0;
	return end && shape ? stk__fail(err, STK_INVALID, "an end and a shape are both given: choose one") : STK_OK;
}

static enum stk_status read_input(
	const struct stk_tensor *t, bool normalized, int32_t n, bool shape, struct bounds *out, struct stk_error *err)
{
	if (!t->data)
		return STK_OK; /* the graph is being built */
	if (stk_desc_elements(&t->desc) != n)
		return stk__fail(err, STK_SHAPE, "the %s input has %lld values for %d axes", shape ? "shape" : "anchor",
			(long long)stk_desc_elements(&t->desc), n);
	double values[STK_MAX_DIMS];
	stk__convert(values, STK_FLOAT64, t->data, t->desc.dtype, n);
	for (int32_t i = 0; i < n; i++)
		*(shape ? &out[i].shape : &out[i].start) =
			(struct bound){true, normalized && !stk__dtype_whole(t->desc.dtype), values[i], true};
	return STK_OK;
}

static enum stk_status read_bounds(
	const struct stk_slice_args *a, const struct stk_call *call, int32_t n, struct bounds *out, struct stk_error *err)
{
	int32_t given;
	enum stk_status s = count_args(a, &given, err);
	if (s)
		return s;
	if (given >= 0 && call->n_in > 1)
		return stk__fail(err, STK_INVALID, "the window is given twice, by inputs and by arguments: choose one");
	if (given == 0 || (given > 1 && given != n))
		return stk__fail(
			err, STK_INVALID, "the bounds have %d values for %d axes: give one for each axis, or one for all", given, n);
	if (given < 0 && call->n_in < 2)
		return stk__fail(err, STK_INVALID, "no window is given: give start and end or shape, or inputs for them");
	for (int32_t i = 0; given >= 0 && i < n; i++)
		out[i] = (struct bounds){
			bound_of(a->start, a->rel_start, i), bound_of(a->end, a->rel_end, i), bound_of(a->shape, a->rel_shape, i)};
	if (call->n_in > 1 && (s = read_input(&call->in[1], a->normalized_anchor, n, false, out, err)))
		return s;
	return call->n_in > 2 ? read_input(&call->in[2], a->normalized_shape, n, true, out, err) : STK_OK;
}

static double resolve(struct bound b, int64_t extent)
{
	double share = b.wide ? b.value * (double)extent : (double)((float)b.value * (float)extent);
	return b.relative ? share : b.value;
}

static enum stk_status resolve_window(const struct bounds *b, int64_t extent, int64_t *start, int64_t *size, struct stk_error *err)
{
	bool relative = (b->start.is_set && b->start.relative) || (b->end.is_set            ? b->end.relative
									  : b->shape.is_set ? b->shape.relative
											    : true);
	*size = -1;
	if (extent < 0 && relative) {
		if (b->shape.is_set && !b->shape.relative)
			*size = (int64_t)b->shape.value;
		return STK_OK;
	}
	double from = b->start.is_set ? resolve(b->start, extent) : 0, to = (double)extent;
	if (b->end.is_set)
		to = resolve(b->end, extent);
	else if (b->start.is_set && b->start.relative && b->shape.is_set && b->shape.relative)
		to = (b->start.value + b->shape.value) *
		     (double)extent; /* adds the fractions first, so that .3 and .7 give the whole extent */
	else if (b->shape.is_set)
		to = from + resolve(b->shape, extent);
	if (!(fabs(from) <= 0x1p40 && fabs(to) <= 0x1p40))
		return stk__fail(err, STK_INVALID, "a window from %g to %g is out of bounds for every tensor", from, to);
	if (to < from)
		return stk__fail(err, STK_INVALID, "the window ends at %g, before its start at %g", to, from);
	*start = (int64_t)round(from);
	*size = (int64_t)round(to) - *start;
	return STK_OK;
}

static bool is_open(const struct stk_call *call, const struct stk_slice_args *a)
{
	return stk__varies(call, &a->start) || stk__varies(call, &a->end) || stk__varies(call, &a->shape) ||
	       stk__varies(call, &a->rel_start) || stk__varies(call, &a->rel_end) || stk__varies(call, &a->rel_shape);
}

/* Treats an empty list as all dims. Without axes and axis_names, the axes are the dims of width and height. If the tensor has no layout, and none is
 * assumed for its number of dims, the axes are 1 and 0, or only 0 if the tensor has one dim. */
int32_t stk__slice_axes(const struct stk_slice_args *a, const struct stk_desc *desc, int32_t axes[STK_MAX_DIMS], struct stk_error *err)
{
	if (a->axes.count == 0 || (a->axes.count < 0 && a->axis_names && !a->axis_names[0])) {
		for (int32_t d = 0; d < desc->ndim; d++)
			axes[d] = d;
		return desc->ndim;
	}
	if (a->axes.count >= 0 || (a->axis_names && strcmp(a->axis_names, "WH") != 0))
		return stk__axes_of(a->axes, a->axis_names, desc, axes, err);
	if (!desc->layout[0] && stk__layout_find(desc, 'W') < 0 && desc->ndim > 0) {
		axes[0] = desc->ndim > 1;
		axes[1] = 0;
		return desc->ndim > 1 ? 2 : 1;
	}
	return stk__axes_of(a->axes, "WH", desc, axes, err);
}

enum stk_status stk__window_of_slice(const struct stk_slice_args *a, const struct stk_call *call, const struct stk_desc *desc,
	struct stk_window *out, struct stk_error *err)
{
	*out = stk__window_full(desc);
	for (int32_t d = 0; d < desc->ndim && stk__varies(call, &a->axes); d++)
		out->extent[d] = -1;
	if (stk__varies(call, &a->axes))
		return STK_OK;
	int32_t axes[STK_MAX_DIMS], n = stk__slice_axes(a, desc, axes, err);
	if (n < 0)
		return (enum stk_status) - n;
	struct bounds bounds[STK_MAX_DIMS] = {0};
	bool unread = (stk__building(call) && call->n_in > 1) || is_open(call, a); /* the window depends on data that does not exist yet */
	enum stk_status s = is_open(call, a) ? STK_OK : read_bounds(a, call, n, bounds, err);
	for (int32_t i = 0; i < n && s == STK_OK; i++) {
		if (unread)
			out->extent[axes[i]] = -1;
		else
			s = resolve_window(&bounds[i], desc->shape[axes[i]], &out->start[axes[i]], &out->extent[axes[i]], err);
	}
	return s;
}
