/* SPDX-License-Identifier: Apache-2.0
 * tensor_resize: resampling of tensors along any of their dims. */
#include "op/geometry/resize_axes.h"
#include "op/geometry/slice_args.h"

#include <string.h>

struct tensor_resize {
	struct stk_floats sizes, scales, alignment, max_size, roi_start, roi_end;
	struct stk_ints axes;
	bool roi_relative, subpixel_scale;
	const char *axis_names, *mode, *size_rounding;
	struct stk_filter_args filter;
};

#define VALUES(member, low, sh, fl, dflt, text)                                                                                            \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_FLOATS, .flags = (fl), .offset = offsetof(struct tensor_resize, member),                  \
		.fallback = dflt, .min = low, .max = 0x1p24, .shapes = sh, .doc = text                                                     \
	}

static const struct stk_arg_def tensor_resize_args[] = {
	VALUES(sizes, -0x1p24, true, STK_PER_SAMPLE | STK_SCALAR_OK, NULL,
		"Extents of the output along the axes, or one for all; 0: the extent follows from mode. Negative extents mirror."),
	VALUES(scales, -0x1p24, true, STK_PER_SAMPLE | STK_SCALAR_OK, NULL, "Extents as multiples of the input's, instead of sizes."),
	VALUES(alignment, 0, false, STK_PER_SAMPLE | STK_SCALAR_OK, NULL,
		"The point of the region that keeps its place if a size has to be rounded: 0 its start, 1 its end; one value an axis, or "
		"one for all. Default: 0.5."),
	VALUES(max_size, 0, false, STK_SCALAR_OK, NULL,
		"Limit of each extent, or one for all, which mode respects; 0: no limit. Default: no limit."),
	VALUES(roi_start, -0x1p24, false, STK_PER_SAMPLE, NULL,
		"Start of the region to resize along each axis; may be fractional. Default: the whole tensor."),
	VALUES(roi_end, -0x1p24, false, STK_PER_SAMPLE, NULL,
		"End of the region; if it is before roi_start, the output is mirrored. As in DALI, an extent that is not given is not mirrored, "
		"except in the modes not_larger and not_smaller."),
	STK_ARG(struct tensor_resize, roi_relative, STK_ARG_BOOL, "false", STK_FREE, 0,
		"roi_start and roi_end are fractions of the extents, 0..1."),
	STK_ARG(struct tensor_resize, axes, STK_ARG_INTS, NULL, STK_FREE, STK_SCALAR_OK,
		"The dims to which the values apply; negative ones count from the end. Default: all."),
	STK_ARG(struct tensor_resize, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0, "The same as letters of the layout, instead of axes."),
	{.name = "mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct tensor_resize, mode),
		.fallback = "\"default\"",
		.choices = "default|stretch|not_larger|not_smaller",
		.doc = "How extents that are not given follow: default keeps the aspect ratio, stretch keeps the extent; not_larger and "
		       "not_smaller keep the aspect ratio inside or around those given. As in DALI, dims that are not listed in axes count as "
		       "if their extents were given; not_larger and not_smaller resize them too."},
	STK_ARG(struct tensor_resize, subpixel_scale, STK_ARG_BOOL, "true", STK_FREE, 0,
		"If an extent was rounded, adjusts the region so that the scale stays exact; false resizes exactly the region."),
	{.name = "size_rounding",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct tensor_resize, size_rounding),
		.fallback = "\"round\"",
		.choices = "round|truncate|ceil",
		.doc = "How a fractional extent is rounded: to the nearest, down or up; at least 1."},
	STK_ARG_GROUP(struct tensor_resize, filter, stk__filter_group),
	STK_ARG_END,
};

/* Sets dims[0 .. *n - 1] to the dims to which the arguments' values refer, in their order: those of axes or axis_names, or else all dims. Fails if a dim
 * occurs twice. */
static enum stk_status read_dims(const struct tensor_resize *a, const struct stk_desc *in, int32_t *dims, int32_t *n, struct stk_error *err)
{
	bool names = a->axis_names && a->axis_names[0], listed = names || a->axes.count >= 0;
	*n = listed ? stk__axes_of(a->axes, a->axis_names, in, dims, err) : in->ndim;
	if (*n < 0)
		return (enum stk_status) - *n;
	for (int32_t k = 0; k < *n; k++) {
		dims[k] = listed ? dims[k] : k;
		for (int32_t i = 0; i < k; i++)
			if (dims[i] == dims[k])
				return stk__fail(err, STK_INVALID, "dim %d is given twice in axes", dims[k]);
	}
	return STK_OK;
}

/* Returns whether the mode gives all dims one scale, as in DALI: those that are not listed then count as if their extents had been requested. In the other modes
 * they do not change. */
static bool scales_all(const struct tensor_resize *a)
{
	return strncmp(a->mode, "not_", 4) == 0;
}

/* Sets out[dims[k]] to the k-th of n values, or to the only one. Leaves `out` as it is if the argument is not given. */
static enum stk_status spread(
	const char *name, struct stk_floats v, bool one_ok, const int32_t *dims, int32_t n, float *out, struct stk_error *err)
{
	if (v.count >= 0 && v.count != n && !(one_ok && v.count == 1))
		return stk__fail(err, STK_INVALID, "%s has %d values for %d axes: give one an axis%s", name, v.count, n,
			one_ok ? ", or one for all" : "");
	for (int32_t k = 0; v.count >= 0 && k < n; k++)
		out[dims[k]] = v.v[v.count == 1 ? 0 : k];
	return STK_OK;
}

/* The arguments of all dims, in the order of the tensor. */
struct values {
	float size[STK_MAX_DIMS], scales[STK_MAX_DIMS], limit[STK_MAX_DIMS], start[STK_MAX_DIMS], end[STK_MAX_DIMS],
		alignment[STK_MAX_DIMS];
};

/* Sets the values of the dims that are listed to those of the arguments. Those of other dims keep the whole extent, without a limit. */
static enum stk_status read_values(const struct tensor_resize *a, const struct stk_extents *x, const int32_t *dims, int32_t n, bool region,
	struct values *v, struct stk_error *err)
{
	for (int32_t d = 0; d < x->n; d++) {
		v->size[d] = (float)x->in[d];
		v->scales[d] = 1;
		v->limit[d] = v->start[d] = 0;
		v->end[d] = a->roi_relative ? 1 : (float)x->in[d];
		v->alignment[d] =
			a->alignment.count < 0 ? 0.5f : 0; /* as in DALI, the values that are given are only for the dims that are listed */
	}
	enum stk_status s = spread("sizes", a->sizes, true, dims, n, v->size, err);
	if (s || (s = spread("scales", a->scales, true, dims, n, v->scales, err)) ||
		(s = spread("max_size", a->max_size, true, dims, n, v->limit, err)) ||
		(s = spread("alignment", a->alignment, true, dims, n, v->alignment, err)))
		return s;
	if (region && (s = spread("roi_start", a->roi_start, false, dims, n, v->start, err)) == STK_OK)
		s = spread("roi_end", a->roi_end, false, dims, n, v->end, err);
	return s;
}

static struct stk_floats list_of(const float *v, int32_t n, struct stk_floats given)
{
	return given.count < 0 ? given : (struct stk_floats){.count = n, .v = v};
}

static enum stk_status infer_axes(const struct stk_call *call, const int32_t *dims, int32_t n, struct stk_error *err)
{
	const struct tensor_resize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	int32_t all[STK_MAX_DIMS];
	bool stays[STK_MAX_DIMS];
	struct values v;
	struct stk_resize filters = {0};
	struct stk_extents x = {.n = in->ndim, .rounding = a->size_rounding[0], .alignment = v.alignment};
	bool open = stk__varies(call, &a->roi_start) || stk__varies(call, &a->roi_end) || stk__varies(call, &a->alignment), known = true;
	for (int32_t d = 0; d < x.n; d++) {
		all[d] = d;
		stays[d] = !scales_all(a);
	}
	for (int32_t k = 0; k < n; k++)
		stays[dims[k]] = false;
	for (int32_t d = 0; d < x.n; d++) /* a dim that stays has the scale 1, whatever its extent is, which may be too large to resize */
		x.in[d] = stays[d] && in->shape[d] != 0 ? 1 : in->shape[d];
	enum stk_status s = stk__filter_of_args(&a->filter, in->dtype, &filters, err);
	if (s || (s = read_values(a, &x, dims, n, !open, &v, err)))
		return s;
	x.scales = a->scales.count >= 0 ? v.scales : NULL;
	for (int32_t k = 0; k < n; k++) /* an extent that follows depends on whether a dim that stays is empty */
		for (int32_t d = 0; d < x.n && (x.scales ? v.scales : v.size)[dims[k]] == 0; d++)
			x.in[d] = in->shape[d] < 0 ? -1 : x.in[d];
	const struct stk_extent_args extent = {.resize_x = NAN,
		.resize_y = NAN,
		.resize_z = NAN,
		.resize_shorter = NAN,
		.resize_longer = NAN,
		.size = {.count = x.n, .v = x.scales ? v.scales : v.size},
		.max_size = list_of(v.limit, x.n, a->max_size),
		.roi_start = list_of(v.start, x.n, a->roi_start),
		.roi_end = list_of(v.end, x.n, a->roi_end),
		.roi_relative = a->roi_relative,
		.subpixel_scale = a->subpixel_scale,
		.mode = a->mode};
	if ((s = stk__extents_of_args(&extent, open, &x, err)))
		return s;
	for (int32_t d = 0; d < x.n; d++) {
		if (stays[d]) {
			x.out[d] = (int32_t)x.in[d];
			x.begin[d] = 0;
			x.end[d] = (float)x.in[d];
			continue;
		}
		call->out[0].desc.shape[d] = x.out[d];
		known &= x.in[d] >= 0 && x.out[d] >= 0 && !open;
	}
	return known ? stk__resize_axes(&x, all, &filters, call->state, err) : STK_OK;
}

static enum stk_status tensor_resize_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct tensor_resize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	int32_t dims[STK_MAX_DIMS], n = 0;
	bool sizes = a->sizes.count >= 0 || stk__varies(call, &a->sizes), scales = a->scales.count >= 0 || stk__varies(call, &a->scales);
	*out = *in;
	out->dtype = stk__dtype_or(a->filter.dtype, in->dtype);
	enum stk_status s = stk__resize_axes_type(in->dtype, err);
	if (s)
		return s;
	if (sizes == scales)
		return stk__fail(err, STK_INVALID,
			sizes ? "sizes and scales are both given: choose one" : "no extent is given: give sizes or scales");
	if (in->ndim < 0)
		return STK_OK;
	if ((s = read_dims(a, in, dims, &n, err)))
		return s;
	for (int32_t d = 0; d < (scales_all(a) ? in->ndim : n); d++)
		out->shape[scales_all(a) ? d : dims[d]] = -1;
	if (stk__varies(call, &a->sizes) || stk__varies(call, &a->scales))
		return STK_OK;
	return infer_axes(call, dims, n, err);
}

static enum stk_status tensor_resize_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	return stk__resize_axes_run(call, call->state, jobs, err);
}

const struct stk_op_def stk__op_tensor_resize = {
	.name = "tensor_resize",
	.doc = "Resizes tensors along any of their dims.\n\n"
	       "The input is a tensor of a type that float32 can hold (uint8, int8, uint16, int16, float16, float32); so is the "
	       "output, or float32. Dims that are not listed stay, except in the modes not_larger and not_smaller; up to three may "
	       "change. Filters are those of resize.",
	.inputs = {1, 1},
	.tolerance =
		"Values are float32 until they are rounded once, at the end; DALI's CPU rounds uint8 along the way if both axes of an image "
		"change.",
	.args = tensor_resize_args,
	.args_size = sizeof(struct tensor_resize),
	.state_size = sizeof(struct stk_resize_axes),
	.infer = tensor_resize_infer,
	.lower_jobs = tensor_resize_lower_jobs,
};
