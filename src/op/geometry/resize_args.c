/* SPDX-License-Identifier: Apache-2.0
 * Computes the output's extents of a resize. The rules are DALI's, from its documentation of resize; edge cases were measured on its CPU backend. */
#include "op/geometry/resize_args.h"

#include "base/math.h"

#include <string.h>

#define FILTER(member, dflt, text)                                                                                                         \
	STK_ARG(struct stk_filter_args, member, STK_ARG_INTERP, dflt, (0, STK_INTERP_GAUSSIAN), STK_PER_SAMPLE, text)

const struct stk_arg_def stk__filter_group[] = {
	FILTER(interp_type, "1", "Filter for both directions: NN, LINEAR, CUBIC, LANCZOS3, TRIANGULAR or GAUSSIAN."),
	FILTER(mag_filter, NULL, "Filter along an axis that grows. Default: interp_type."),
	FILTER(min_filter, NULL, "Filter along an axis that shrinks. Default: interp_type."),
	STK_ARG(struct stk_filter_args, antialias, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Widens the filter with the scale along an axis that shrinks; NN never does."),
	{.name = "border",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_filter_args, border),
		.fallback = "\"repeat\"",
		.choices = "repeat|drop",
		.doc = "How filters continue outside the image: they repeat the edge's pixel, or leave outside pixels out and scale up the "
		       "weights of the others, as Pillow does."},
	STK_ARG(struct stk_filter_args, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output: float32, or the input's (the default), to which values are rounded."),
	STK_ARG_END,
};

enum stk_status stk__filter_of_args(const struct stk_filter_args *a, enum stk_dtype in, struct stk_resize *out, struct stk_error *err)
{
	enum stk_dtype dtype = stk__dtype_or(a->dtype, in);
	if (in != STK_NO_DTYPE && dtype != in && dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "a resize of %s gives %s or float32, not %s; cast its result", stk_dtype_name(in),
			stk_dtype_name(in), stk_dtype_name(dtype));
	out->min_filter = (uint8_t)(a->min_filter < 0 ? a->interp_type : a->min_filter);
	out->mag_filter = (uint8_t)(a->mag_filter < 0 ? a->interp_type : a->mag_filter);
	out->antialias = a->antialias;
	out->drop = a->border[0] == 'd';
	out->dtype = (uint8_t)dtype;
	return STK_OK;
}

#define PIXELS(member, kind, fl, text)                                                                                                     \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_##kind, .flags = STK_PER_SAMPLE | (fl),                                                   \
		.offset = offsetof(struct stk_extent_args, member), .min = -0x1p24, .max = 0x1p24, .shapes = true, .doc = text             \
	}

const struct stk_arg_def stk__extent_core_group[] = {
	PIXELS(resize_x, FLOAT, 0, "Width of the output; 0: the width follows from mode. Negative mirrors the image."),
	PIXELS(resize_y, FLOAT, 0, "Height of the output; 0: the height follows from mode. Negative mirrors the image."),
	PIXELS(resize_z, FLOAT, 0, "Depth of the output, for volumes; 0: the depth follows from mode. Negative mirrors the volume."),
	PIXELS(resize_shorter, FLOAT, 0, "Length of the shorter side; the other keeps the aspect ratio, up to max_size."),
	PIXELS(resize_longer, FLOAT, 0, "Length of the longer side; the other keeps the aspect ratio."),
	PIXELS(size, FLOATS, STK_SCALAR_OK,
		"Height and width of the output (for volumes depth, height and width), or one value for all; 0 as for resize_x. If all are "
		"0, extents do not change."),
	STK_ARG(struct stk_extent_args, max_size, STK_ARG_FLOATS, NULL, (0, 0x1p24), STK_SCALAR_OK,
		"Limit of each extent, in the order of size, or one for all, which mode respects; 0: no limit. Default: no limit."),
	STK_ARG(struct stk_extent_args, roi_start, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE,
		"Start of the region to resize, in pixels, in the order of size; may be fractional. Default: the whole image."),
	STK_ARG(struct stk_extent_args, roi_end, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE,
		"End of the region; if it is before roi_start, the output is mirrored. As in DALI, an extent that is not given is not mirrored, "
		"except in the modes not_larger and not_smaller."),
	STK_ARG(struct stk_extent_args, roi_relative, STK_ARG_BOOL, "false", STK_FREE, 0,
		"roi_start and roi_end are fractions of the extents, 0..1."),
	STK_ARG(struct stk_extent_args, subpixel_scale, STK_ARG_BOOL, "true", STK_FREE, 0,
		"If an extent was rounded, adjusts the region so that the scale stays exact; false resizes exactly the region, as Pillow "
		"does."),
	{.name = "mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_extent_args, mode),
		.fallback = "\"default\"",
		.choices = "default|stretch|not_larger|not_smaller",
		.doc = "How extents that are not given follow: default keeps the aspect ratio, stretch keeps the extent; not_larger and "
		       "not_smaller keep the aspect ratio inside or around those given."},
	STK_ARG_END,
};

const struct stk_arg_def stk__extent_group[] = {
	{.name = "", .offset = 0, .group = stk__extent_core_group},
	{.name = "rounding",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_extent_args, rounding),
		.fallback = "\"round\"",
		.choices = "round|truncate",
		.doc = "How an extent that follows from the other axis is rounded: to the nearest, or down, as torchvision does."},
	STK_ARG_END,
};

enum mode { MODE_DEFAULT, MODE_STRETCH, MODE_NOT_LARGER, MODE_NOT_SMALLER };

/* The extents that the arguments request, the outermost dim first. */
struct request {
	enum mode mode;
	int32_t n;
	float size[STK_MAX_DIMS], limit[STK_MAX_DIMS]; /* 0: not given */
};

static enum mode mode_of(const char *name)
{
	return name[0] == 'd' ? MODE_DEFAULT : name[0] == 's' ? MODE_STRETCH : name[4] == 'l' ? MODE_NOT_LARGER : MODE_NOT_SMALLER;
}

static enum stk_status read_list(const char *name, struct stk_floats v, bool one_ok, int32_t n, float *out, struct stk_error *err)
{
	if (v.count != n && !(one_ok && v.count == 1))
		return stk__fail(err, STK_INVALID, "%s has %d values; it takes %s%s", name, v.count,
			n == 2   ? "(height, width)"
			: n == 3 ? "(depth, height, width)"
				 : "one for each axis",
			one_ok ? " or one for all" : "");
	for (int32_t d = 0; d < n; d++)
		out[d] = v.v[v.count == 1 ? 0 : d];
	return STK_OK;
}

bool stk__extents_open(const struct stk_call *call, const struct stk_extent_args *a)
{
	return stk__varies(call, &a->size) || stk__varies(call, &a->resize_x) || stk__varies(call, &a->resize_y) ||
	       stk__varies(call, &a->resize_z) || stk__varies(call, &a->resize_shorter) || stk__varies(call, &a->resize_longer);
}

static float or_zero(float v)
{
	return stk__float_given(v) ? v : 0;
}

static enum stk_status read_request(const struct stk_extent_args *a, int32_t n, struct request *r, struct stk_error *err)
{
	bool xyz = stk__float_given(a->resize_x) || stk__float_given(a->resize_y) || (n == 3 && stk__float_given(a->resize_z)),
	     list = a->size.count >= 0, shorter = stk__float_given(a->resize_shorter), longer = stk__float_given(a->resize_longer);
	*r = (struct request){.mode = mode_of(a->mode), .n = n};
	if (n == 2 && or_zero(a->resize_z) != 0)
		return stk__fail(err, STK_INVALID, "resize_z is for volumes, of layout DHWC or CDHW");
	if (xyz + list + shorter + longer != 1)
		return stk__fail(err, STK_INVALID,
			xyz + list + shorter + longer
				? "the extent is given twice; give one of resize_x, resize_y and resize_z, size, resize_shorter, resize_longer"
				: "no extent is given: give resize_x or resize_y or both, size, resize_shorter or resize_longer");
	if ((shorter || longer) && r->mode != MODE_DEFAULT)
		return stk__fail(
			err, STK_INVALID, "resize_shorter and resize_longer are modes of their own: leave out mode=\"%s\"", a->mode);
	if (xyz) {
		r->size[n - 1] = or_zero(a->resize_x);
		r->size[n - 2] = or_zero(a->resize_y);
		r->size[0] = n == 3 ? or_zero(a->resize_z) : r->size[0];
	}
	for (int32_t d = 0; (shorter || longer) && d < n; d++)
		r->size[d] = shorter ? a->resize_shorter : a->resize_longer;
	if (shorter || longer)
		r->mode = shorter ? MODE_NOT_SMALLER : MODE_NOT_LARGER;
	enum stk_status s = list ? read_list("size", a->size, true, n, r->size, err) : STK_OK;
	return s || a->max_size.count < 0 ? s : read_list("max_size", a->max_size, true, n, r->limit, err);
}

/* The region that is resized. flip: true if the user gave the start above the end, so that the output is mirrored. */
struct region {
	float lo[STK_MAX_DIMS], hi[STK_MAX_DIMS];
	bool flip[STK_MAX_DIMS];
};

static const char *axis_text(int32_t n, int32_t d)
{
	static const char *const names[] = {"wide", "high", "deep"};
	return n <= 3 ? names[n - 1 - d] : "long";
}

static enum stk_status read_region(
	const struct stk_extent_args *a, int32_t n, const int64_t *extent, struct region *out, struct stk_error *err)
{
	float start[STK_MAX_DIMS] = {0}, end[STK_MAX_DIMS];
	for (int32_t d = 0; d < n; d++)
		end[d] = (float)extent[d];
	if (a->roi_start.count >= 0 || a->roi_end.count >= 0) {
		if (a->roi_start.count < 0 || a->roi_end.count < 0)
			return stk__fail(err, STK_INVALID, "roi_start and roi_end go together: give both");
		enum stk_status s = read_list("roi_start", a->roi_start, false, n, start, err);
		if (s || (s = read_list("roi_end", a->roi_end, false, n, end, err)))
			return s;
	}
	for (int32_t d = 0; d < n; d++) {
		if (a->roi_relative && a->roi_start.count >= 0) {
			start[d] *= (float)extent[d];
			end[d] *= (float)extent[d];
		}
		out->flip[d] = end[d] < start[d];
		out->lo[d] = out->flip[d] ? end[d] : start[d];
		out->hi[d] = out->flip[d] ? start[d] : end[d];
		if (extent[d] > 0 && !(out->lo[d] >= -0x1p30f && out->hi[d] <= 0x1p30f))
			return stk__fail(err, STK_LIMIT, "the region from %g to %g lies too far outside an image %lld pixels %s",
				(double)out->lo[d], (double)out->hi[d], (long long)extent[d], axis_text(n, d));
		if (extent[d] > 0 && !(out->hi[d] - out->lo[d] > 0))
			return stk__fail(err, STK_SHAPE,
				"there is nothing to resize: the region is %g pixels %s; roi_start and roi_end must differ along each axis",
				(double)(out->hi[d] - out->lo[d]), axis_text(n, d));
	}
	return STK_OK;
}

/* Returns the scale of all axes, in the modes that keep the aspect ratio and fit the image into or around the given extents: the smallest scale of the
 * given extents or, for MODE_NOT_SMALLER, the largest, lowered so that no output extent exceeds its limit. */
static double common_scale(const struct request *r, const double *scale, const bool *given, const float *extent)
{
	double common = 0;
	bool first = true;
	for (int32_t d = 0; d < r->n; d++) {
		double s = fabs(scale[d]);
		if (!given[d])
			continue;
		if (first || (r->mode == MODE_NOT_SMALLER ? s > common : s < common))
			common = s;
		first = false;
	}
	for (int32_t d = 0; d < r->n; d++)
		if (r->limit[d] > 0 && (double)r->limit[d] / extent[d] < common)
			common = (double)r->limit[d] / extent[d];
	return common;
}

/* Returns the geometric mean of the given scales. */
static double mean_scale(const struct request *r, const double *scale, const bool *given)
{
	double product = 1;
	int32_t n = 0;
	for (int32_t d = 0; d < r->n; d++)
		if (given[d]) {
			product *= fabs(scale[d]);
			n++;
		}
	return n == 0 ? 1 : n == 1 ? product : n == 2 ? sqrt(product) : stk__exp(stk__log(product) / n);
}

/* Sets size[] to the output's fractional extents, computed from the requested ones. A negative extent mirrors. extent: extents of the region. flip: true for
 * dims along which the region is mirrored. As in DALI, an extent that follows from the region (MODE_DEFAULT, MODE_STRETCH, or no extent is requested) has the
 * region's sign, so that the two signs cancel: the output is then not mirrored. */
static void complete(const struct request *r, const float *extent, const bool *flip, float *size)
{
	bool given[STK_MAX_DIMS], any = false;
	double scale[STK_MAX_DIMS];
	for (int32_t d = 0; d < r->n; d++) {
		given[d] = r->size[d] != 0;
		any |= given[d];
		scale[d] = given[d] ? (double)(r->size[d] / extent[d]) : 1;
	}
	if (!any) { /* no extent is requested: the output has the region's extents, whatever the mode and the limits are */
		for (int32_t d = 0; d < r->n; d++)
			size[d] = flip[d] ? -extent[d] : extent[d];
		return;
	}
	if (r->mode == MODE_NOT_LARGER || r->mode == MODE_NOT_SMALLER) {
		double common = common_scale(r, scale, given, extent);
		for (int32_t d = 0; d < r->n; d++)
			size[d] = given[d] && fabs(scale[d]) == common ? r->size[d] : (float)(extent[d] * copysign(common, scale[d]));
		return;
	}
	double from_others = r->mode == MODE_DEFAULT ? mean_scale(r, scale, given) : 1;
	for (int32_t d = 0; d < r->n; d++) {
		size[d] = given[d] ? r->size[d] : (float)(extent[d] * (flip[d] ? -from_others : from_others));
		if (r->limit[d] > 0 && fabsf(size[d]) > r->limit[d])
			size[d] = copysignf(r->limit[d], size[d]);
	}
}

/* Rounds extents that were computed from other extents down to whole pixels. Computes them in double, since a quotient of floats may be just below a whole
 * number. */
static void cut_extents(const struct request *r, const float *extent, float *size)
{
	for (int32_t d = 0; d < r->n; d++) {
		if (size[d] == r->size[d] || extent[d] == 0 || (r->n == 2 && extent[1 - d] == 0))
			continue;
		double exact = r->n == 2 ? (double)extent[d] * fabs((double)size[1 - d]) / (double)extent[1 - d] : fabs((double)size[d]);
		size[d] = (float)copysign(floor(exact), size[d]);
	}
}

/* Returns a fractional extent rounded to whole pixels, at least one. rounding: as in struct stk_extents. */
static double whole_extent(float size, char rounding)
{
	double pixels = fabs((double)size);
	pixels = rounding == 't' ? floor(pixels) : rounding == 'c' ? ceil(pixels) : round(pixels);
	return pixels < 1 ? 1 : pixels;
}

/* Sets x->out, x->begin and x->end of dim d. If rounding changes the extent `size` and exact_scale is set, the region grows or shrinks in the same ratio,
 * about its point at x->alignment or, if that is NULL, about its centre. Without exact_scale the region stays as it is. */
static void finish(struct stk_extents *x, bool exact_scale, float size, const struct region *r, int32_t d, bool flip)
{
	double lo = r->lo[d], hi = r->hi[d], pixels = whole_extent(size, x->rounding);
	x->out[d] = (int32_t)pixels;
	double b = lo, e = hi;
	if (exact_scale && size != 0 && fabsf(size) != (float)x->out[d]) {
		double share = x->alignment ? (double)x->alignment[d] : 0.5;
		share = flip ? 1 - share : share;
		double centre = x->alignment ? lo + (hi - lo) * share : (lo + hi) / 2, grow = pixels / fabs((double)size);
		b = centre + (lo - centre) * grow;
		e = centre + (hi - centre) * grow;
	}
	if (e - b > 0x1p30) { /* limits the region's extent: beyond this, the whole input is a tiny part of one output pixel */
		double centre = (lo + hi) / 2;
		b = centre - 0x1p29;
		e = centre + 0x1p29;
	}
	x->begin[d] = (float)(flip ? e : b);
	x->end[d] = (float)(flip ? b : e);
}

/* Sets the extents of the output that do not depend on those of the input, and -1 for the others. */
static void infer_known_sizes(const struct request *r, int32_t *out)
{
	bool all = true;
	for (int32_t d = 0; d < r->n; d++)
		all &= r->size[d] != 0;
	for (int32_t d = 0; d < r->n; d++) {
		bool known = r->mode == MODE_STRETCH ? r->size[d] != 0 : r->mode == MODE_DEFAULT && all;
		float limited = r->limit[d] > 0 && fabsf(r->size[d]) > r->limit[d] ? r->limit[d] : fabsf(r->size[d]);
		out[d] = !known ? -1 : limited < 1 ? 1 : (int32_t)roundf(limited);
	}
}

enum stk_status stk__extents_of_args(const struct stk_extent_args *a, bool region_open, struct stk_extents *x, struct stk_error *err)
{
	struct request r;
	struct region region;
	float extent[STK_MAX_DIMS] = {0}, size[STK_MAX_DIMS];
	bool known = !region_open;
	enum stk_status s = read_request(a, x->n, &r, err);
	if (s)
		return s;
	for (int32_t d = 0; d < x->n; d++) {
		x->out[d] = -1;
		known &= x->in[d] >= 0;
	}
	if (!x->scales)
		infer_known_sizes(&r, x->out);
	if (region_open || (s = read_region(a, x->n, x->in, &region, err)) || !known)
		return s;
	for (int32_t d = 0; d < x->n; d++) {
		extent[d] = region.hi[d] - region.lo[d];
		if (x->scales)
			r.size[d] = x->scales[d] * (float)x->in[d];
		if (x->in[d] == 0) /* an empty axis stays empty; the other axes are computed as if no extent were requested for this one */
			extent[d] = r.size[d] = 0;
	}
	complete(&r, extent, region.flip, size);
	if (a->rounding && a->rounding[0] == 't')
		cut_extents(&r, extent, size);
	for (int32_t d = 0; d < x->n; d++) {
		if (x->in[d] == 0) {
			x->out[d] = 0;
			x->begin[d] = x->end[d] = 0;
			continue;
		}
		if (!(fabsf(size[d]) <= 0x1p24f))
			return stk__fail(err, STK_LIMIT, "a resize to %g pixels %s is out of bounds", (double)size[d], axis_text(x->n, d));
		finish(x, a->subpixel_scale, size[d], &region, d, region.flip[d] != (size[d] < 0));
	}
	return STK_OK;
}

enum stk_status stk__extent_of_args(
	const struct stk_call *call, const struct stk_extent_args *a, int64_t w, int64_t h, struct stk_resize *out, struct stk_error *err)
{
	struct stk_extents x = {.n = 2, .in = {h, w}, .rounding = 'r'};
	out->out_w = out->out_h = -1;
	if (stk__extents_open(call, a))
		return STK_OK;
	enum stk_status s = stk__extents_of_args(a, stk__varies(call, &a->roi_start) || stk__varies(call, &a->roi_end), &x, err);
	out->out_h = x.out[0];
	out->out_w = x.out[1];
	out->roi_y0 = x.begin[0];
	out->roi_y1 = x.end[0];
	out->roi_x0 = x.begin[1];
	out->roi_x1 = x.end[1];
	return s;
}
