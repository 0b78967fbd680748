/* SPDX-License-Identifier: Apache-2.0
 * The rules are DALI's (its documentation of resize; edge cases measured on its CPU backend). */
#include "op/resize_args.h"

#include <string.h>

#define FILTER(member, dflt, text)                                                                                                         \
	STK_ARG(struct stk_filter_args, member, STK_ARG_INTERP, dflt, (0, STK_INTERP_GAUSSIAN), STK_PER_SAMPLE, text)

const struct stk_arg_def stk__filter_group[] = {
	FILTER(interp_type, "1", "Filter for both directions: NN, LINEAR, CUBIC, LANCZOS3, TRIANGULAR or GAUSSIAN."),
	FILTER(mag_filter, NULL, "Filter along an axis that grows; default: interp_type."),
	FILTER(min_filter, NULL, "Filter along an axis that shrinks; default: interp_type."),
	STK_ARG(struct stk_filter_args, antialias, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Widens the filter with the scale along an axis that shrinks; NN never does."),
	{.name = "border",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_filter_args, border),
		.fallback = "\"repeat\"",
		.choices = "repeat|drop",
		.doc = "What a filter finds outside the image: the edge's pixel again, or nothing, and then the rest counts for all, "
		       "Pillow's rule."},
	STK_ARG(struct stk_filter_args, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output: float32, or the input's (the default), to which values are rounded."),
	STK_ARG_END,
};

enum stk_status stk__filter_of_args(const struct stk_filter_args *a, enum stk_dtype in, struct stk_resize *out, struct stk_error *err)
{
	enum stk_dtype dtype = stk__dtype_or(a->dtype, in);
	if (in != STK_NO_DTYPE && dtype != in && dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "a resize of %s gives %s or float32, not %s; cast what it gives", stk_dtype_name(in),
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
		.offset = offsetof(struct stk_extent_args, member), .fallback = STK_ARG_##kind == STK_ARG_FLOAT ? "0.0" : NULL,            \
		.min = -0x1p24, .max = 0x1p24, .shapes = true, .doc = text                                                                 \
	}

const struct stk_arg_def stk__extent_core_group[] = {
	PIXELS(resize_x, FLOAT, 0, "Width of the output; 0: as mode says. Negative mirrors the image."),
	PIXELS(resize_y, FLOAT, 0, "Height of the output; 0: as mode says. Negative mirrors the image."),
	PIXELS(resize_z, FLOAT, 0, "Depth of the output, for volumes, which are not supported yet."),
	PIXELS(resize_shorter, FLOAT, 0, "Length of the shorter side; the other keeps the aspect ratio, up to max_size."),
	PIXELS(resize_longer, FLOAT, 0, "Length of the longer side; the other keeps the aspect ratio."),
	PIXELS(size, FLOATS, STK_SCALAR_OK, "Height and width of the output, or one value for both; 0 as for resize_x."),
	STK_ARG(struct stk_extent_args, max_size, STK_ARG_FLOATS, NULL, (0, 0x1p24), STK_SCALAR_OK,
		"Limit of height and width, or one for both, that mode works with; 0: none. Default: none."),
	STK_ARG(struct stk_extent_args, roi_start, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE,
		"Top and left of the region to resize, in pixels, may be fractional. Default: the image."),
	STK_ARG(struct stk_extent_args, roi_end, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE,
		"Bottom and right of the region; before roi_start: mirrored."),
	STK_ARG(struct stk_extent_args, roi_relative, STK_ARG_BOOL, "false", STK_FREE, 0,
		"roi_start and roi_end are shares of the extents, 0..1."),
	STK_ARG(struct stk_extent_args, subpixel_scale, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Where an extent was rounded, adjusts the region so that the scale is the exact one; false resizes just the region, as "
		"Pillow does."),
	{.name = "mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_extent_args, mode),
		.fallback = "\"default\"",
		.choices = "default|stretch|not_larger|not_smaller",
		.doc = "What holds for extents not given: default keeps the aspect ratio, stretch the extent; not_larger and not_smaller "
		       "keep the aspect ratio inside or around those given."},
	STK_ARG_END,
};

const struct stk_arg_def stk__extent_group[] = {
	{.name = "", .offset = 0, .group = stk__extent_core_group},
	{.name = "rounding",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_extent_args, rounding),
		.fallback = "\"round\"",
		.choices = "round|truncate",
		.doc = "How an extent that follows from the other axis becomes whole: to the nearest, or cut, as torchvision does."},
	STK_ARG_END,
};

enum mode { MODE_DEFAULT, MODE_STRETCH, MODE_NOT_LARGER, MODE_NOT_SMALLER };

/* Index 0 is y, 1 is x, as in `size`. */
struct request {
	enum mode mode;
	float size[2], limit[2]; /* 0: none */
};

static enum mode mode_of(const char *name)
{
	return name[0] == 'd' ? MODE_DEFAULT : name[0] == 's' ? MODE_STRETCH : name[4] == 'l' ? MODE_NOT_LARGER : MODE_NOT_SMALLER;
}

static enum stk_status read_pair(const char *name, struct stk_floats v, bool one_ok, float out[2], struct stk_error *err)
{
	if (v.count != 2 && !(one_ok && v.count == 1))
		return stk__fail(
			err, STK_INVALID, "%s has %d values; it takes (height, width)%s", name, v.count, one_ok ? " or one for both" : "");
	out[0] = v.v[0];
	out[1] = v.v[v.count - 1];
	return STK_OK;
}

/* Extents that will come sample by sample. */
static bool is_open(const struct stk_call *call, const struct stk_extent_args *a)
{
	return stk__varies(call, &a->size) || stk__varies(call, &a->resize_x) || stk__varies(call, &a->resize_y) ||
	       stk__varies(call, &a->resize_shorter) || stk__varies(call, &a->resize_longer);
}

static enum stk_status read_request(const struct stk_extent_args *a, struct request *r, struct stk_error *err)
{
	bool xy = a->resize_x != 0 || a->resize_y != 0, list = a->size.count >= 0, shorter = a->resize_shorter != 0,
	     longer = a->resize_longer != 0;
	*r = (struct request){.mode = mode_of(a->mode), .size = {a->resize_y, a->resize_x}};
	if (xy + list + shorter + longer != 1)
		return stk__fail(err, STK_INVALID,
			xy + list + shorter + longer
				? "the extent is given twice; give one of resize_x and resize_y, size, resize_shorter, resize_longer"
				: "no extent is given: give resize_x or resize_y or both, size, resize_shorter or resize_longer");
	if (a->resize_z != 0)
		return stk__fail(err, STK_UNSUPPORTED, "resize_z is for volumes, which are not supported yet");
	if ((shorter || longer) && r->mode != MODE_DEFAULT)
		return stk__fail(
			err, STK_INVALID, "resize_shorter and resize_longer are modes of their own: leave out mode=\"%s\"", a->mode);
	if (shorter || longer) {
		r->size[0] = r->size[1] = shorter ? a->resize_shorter : a->resize_longer;
		r->mode = shorter ? MODE_NOT_SMALLER : MODE_NOT_LARGER;
	}
	enum stk_status s = list ? read_pair("size", a->size, true, r->size, err) : STK_OK;
	return s || a->max_size.count < 0 ? s : read_pair("max_size", a->max_size, true, r->limit, err);
}

/* The region, from low to high; `flip` where it was given the other way round. */
struct region {
	float lo[2], hi[2];
	bool flip[2];
};

static enum stk_status read_region(const struct stk_extent_args *a, const int64_t extent[2], struct region *out, struct stk_error *err)
{
	float start[2] = {0, 0}, end[2] = {(float)extent[0], (float)extent[1]};
	if (a->roi_start.count >= 0 || a->roi_end.count >= 0) {
		if (a->roi_start.count < 0 || a->roi_end.count < 0)
			return stk__fail(err, STK_INVALID, "roi_start and roi_end go together: give both");
		enum stk_status s = read_pair("roi_start", a->roi_start, false, start, err);
		if (s || (s = read_pair("roi_end", a->roi_end, false, end, err)))
			return s;
	}
	for (int d = 0; d < 2; d++) {
		if (a->roi_relative && a->roi_start.count >= 0) {
			start[d] *= (float)extent[d];
			end[d] *= (float)extent[d];
		}
		out->flip[d] = end[d] < start[d];
		out->lo[d] = out->flip[d] ? end[d] : start[d];
		out->hi[d] = out->flip[d] ? start[d] : end[d];
		if (extent[d] >= 0 && !(out->lo[d] >= -0x1p30f && out->hi[d] <= 0x1p30f))
			return stk__fail(err, STK_LIMIT, "the region from %g to %g lies too far outside an image %lld pixels %s",
				(double)out->lo[d], (double)out->hi[d], (long long)extent[d], d ? "wide" : "high");
		if (extent[d] >= 0 && !(out->hi[d] - out->lo[d] > 0))
			return stk__fail(err, STK_SHAPE, "there is nothing to resize: the region is %g pixels %s",
				(double)(out->hi[d] - out->lo[d]), d ? "wide" : "high");
	}
	return STK_OK;
}

/* The scale that both axes share in the modes that keep the aspect ratio around or inside what is given. */
static double common_scale(const struct request *r, const double scale[2], const bool given[2], const float extent[2])
{
	double common = 0;
	bool first = true;
	for (int d = 0; d < 2; d++) {
		double s = fabs(scale[d]);
		if (!given[d])
			continue;
		if (first || (r->mode == MODE_NOT_SMALLER ? s > common : s < common))
			common = s;
		first = false;
	}
	for (int d = 0; d < 2; d++)
		if (r->limit[d] > 0 && (double)r->limit[d] / extent[d] < common)
			common = (double)r->limit[d] / extent[d];
	return common;
}

/* Fractional extents, signed, from those given; extent: of the region. */
static void complete(const struct request *r, const float extent[2], float size[2])
{
	bool given[2] = {r->size[0] != 0, r->size[1] != 0};
	double scale[2] = {1, 1};
	for (int d = 0; d < 2; d++)
		if (given[d])
			scale[d] = (double)(r->size[d] / extent[d]);
	if (r->mode == MODE_NOT_LARGER || r->mode == MODE_NOT_SMALLER) {
		double common = common_scale(r, scale, given, extent);
		for (int d = 0; d < 2; d++)
			size[d] = given[d] && fabs(scale[d]) == common ? r->size[d] : (float)(extent[d] * copysign(common, scale[d]));
		return;
	}
	for (int d = 0; d < 2; d++) {
		double from_other = r->mode == MODE_DEFAULT ? fabs(scale[1 - d]) : 1;
		size[d] = given[d] ? r->size[d] : (float)(extent[d] * from_other);
		if (r->limit[d] > 0 && fabsf(size[d]) > r->limit[d])
			size[d] = copysignf(r->limit[d], size[d]);
	}
}

/* Cuts extents that follow from the other axis to whole pixels. In exact arithmetic: a quotient of floats may lie just below a whole number. */
static void cut_extents(const struct request *r, const float extent[2], float size[2])
{
	for (int d = 0; d < 2; d++)
		if (size[d] != r->size[d])
			size[d] = (float)copysign(floor((double)extent[d] * fabs((double)size[1 - d]) / (double)extent[1 - d]), size[d]);
}

/* One axis of the result. */
static void finish(bool exact_scale, float size, float lo, float hi, bool flip, int32_t *out, float *begin, float *end)
{
	double pixels = round(fabs((double)size));
	*out = pixels < 1 ? 1 : (int32_t)pixels;
	double b = lo, e = hi;
	if (exact_scale && size != 0 && fabsf(size) != (float)*out) {
		double centre = ((double)lo + hi) / 2, grow = *out / fabs((double)size);
		b = centre + (lo - centre) * grow;
		e = centre + (hi - centre) * grow;
	}
	if (e - b > 0x1p30) { /* of a small part of a pixel: only the edges are visible */
		double centre = ((double)lo + hi) / 2;
		b = centre - 0x1p29;
		e = centre + 0x1p29;
	}
	*begin = (float)(flip ? e : b);
	*end = (float)(flip ? b : e);
}

/* While an extent is unknown: outputs that do not depend on it. */
static void guess(const struct request *r, int32_t out[2])
{
	bool both = r->size[0] != 0 && r->size[1] != 0;
	for (int d = 0; d < 2; d++) {
		bool known = r->mode == MODE_STRETCH ? r->size[d] != 0 : r->mode == MODE_DEFAULT && both;
		float limited = r->limit[d] > 0 && fabsf(r->size[d]) > r->limit[d] ? r->limit[d] : fabsf(r->size[d]);
		out[d] = !known ? -1 : limited < 1 ? 1 : (int32_t)roundf(limited);
	}
}

enum stk_status stk__extent_of_args(
	const struct stk_call *call, const struct stk_extent_args *a, int64_t w, int64_t h, struct stk_resize *out, struct stk_error *err)
{
	struct request r;
	out->out_w = out->out_h = -1;
	if (is_open(call, a))
		return STK_OK;
	enum stk_status s = read_request(a, &r, err);
	if (s)
		return s;
	int32_t extents[2];
	guess(&r, extents);
	out->out_h = extents[0];
	out->out_w = extents[1];
	struct region region;
	if (stk__varies(call, &a->roi_start) || stk__varies(call, &a->roi_end))
		return STK_OK;
	if ((s = read_region(a, (int64_t[2]){h, w}, &region, err)) || w < 0 || h < 0)
		return s;
	float extent[2] = {region.hi[0] - region.lo[0], region.hi[1] - region.lo[1]}, size[2];
	complete(&r, extent, size);
	if (a->rounding && a->rounding[0] == 't')
		cut_extents(&r, extent, size);
	for (int d = 0; d < 2; d++)
		if (!(fabsf(size[d]) <= 0x1p24f))
			return stk__fail(
				err, STK_LIMIT, "a resize to %g pixels %s is out of bounds", (double)size[d], d ? "of width" : "of height");
	finish(a->subpixel_scale, size[0], region.lo[0], region.hi[0], region.flip[0] != (size[0] < 0), &out->out_h, &out->roi_y0,
		&out->roi_y1);
	finish(a->subpixel_scale, size[1], region.lo[1], region.hi[1], region.flip[1] != (size[1] < 0), &out->out_w, &out->roi_x0,
		&out->roi_x1);
	return STK_OK;
}
