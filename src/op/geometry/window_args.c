/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/window_args.h"

#define EXTENT(member, text)                                                                                                               \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_FLOAT, .flags = STK_PER_SAMPLE, .offset = offsetof(struct stk_window_args, member),       \
		.fallback = "0.0", .min = 0, .max = 0x1p31, .shapes = true, .doc = text                                                    \
	}

const struct stk_arg_def stk__window_group[] = {
	{.name = "crop",
		.type = STK_ARG_FLOATS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct stk_window_args, crop),
		.min = 0,
		.max = 0x1p31,
		.shapes = true,
		.doc = "Extent of the window in pixels: (height, width), or (depth, height, width) for volumes; 0 keeps the whole dim. "
		       "Instead of crop_h, crop_w, crop_d."},
	EXTENT(crop_d, "Depth of the window in pixels, for volumes; for sequences without depth, the number of frames; 0 keeps all."),
	EXTENT(crop_h, "Height of the window in pixels; 0 keeps all."),
	EXTENT(crop_w, "Width of the window in pixels; 0 keeps all."),
	STK_ARG(struct stk_window_args, crop_pos_x, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE,
		"Place of the window: its left edge is at crop_pos_x * (width - crop_w)."),
	STK_ARG(struct stk_window_args, crop_pos_y, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE,
		"Place of the window: its top edge is at crop_pos_y * (height - crop_h)."),
	STK_ARG(struct stk_window_args, crop_pos_z, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE,
		"Place of the window along the depth, or along the frames of a sequence."),
	{.name = "rounding",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_window_args, rounding),
		.fallback = "\"round\"",
		.choices = "round|truncate|even",
		.doc = "How an edge between two pixels is rounded: round to the nearest, halves away from zero; truncate towards zero; "
		       "even as torchvision's CenterCrop, halves to the even neighbour, and towards zero for a window larger than the image."},
	STK_ARG_END,
};

/* Computes where the window starts and how large it is along one dim. size: extent of the tensor's dim; -1: not known, and *start is then 0. extent: extent
 * of the window; 0 stands for the whole dim. pos: 0 puts the window at the start of the dim, 1 at its end. rounding: the first letter of the argument
 * `rounding`. The product with pos is computed in double, so that 0.7f * 5, which is just below 3.5, is rounded to 3. */
static void resolve_axis(float extent, float pos, char rounding, int64_t size, int64_t *start, int64_t *out)
{
	if (extent > 0)
		*out = (int64_t)extent;
	else
		*out = size;
	double edge = size < 0 ? 0 : (double)pos * (double)(size - *out);
	if (rounding == 'e')
		*start = (int64_t)(edge < 0 ? trunc(edge) : rint(edge));
	else
		*start = (int64_t)(rounding == 't' ? trunc(edge) : round(edge));
}

/* Sets extents[] to the window's depth, height and width, from `crop` or from crop_d, crop_h and crop_w. 0: not given. If `crop` has one value, it is the
 * height and the width. Fails if both forms are given, or if `crop` is given without values or with more than three. */
static enum stk_status read_extents(const struct stk_window_args *a, float extents[3], struct stk_error *err)
{
	extents[0] = a->crop_d;
	extents[1] = a->crop_h;
	extents[2] = a->crop_w;
	if (a->crop.count < 0)
		return STK_OK;
	if (extents[0] > 0 || extents[1] > 0 || extents[2] > 0)
		return stk__fail(err, STK_INVALID, "crop is given along with crop_w, crop_h or crop_d: choose one way");
	if (a->crop.count < 1 || a->crop.count > 3)
		return stk__fail(
			err, STK_INVALID, "crop has %d values; give (height, width), or (depth, height, width) for volumes", a->crop.count);
	for (int32_t i = 0; i < a->crop.count; i++)
		extents[3 - a->crop.count + i] = a->crop.v[i];
	if (a->crop.count == 1)
		extents[1] = extents[2];
	return STK_OK;
}

int32_t stk__window_depth(const struct stk_desc *desc)
{
	int32_t d = stk__layout_find(desc, 'D');
	return d >= 0 ? d : stk__layout_find(desc, 'F');
}

enum stk_status stk__window_within(const struct stk_window *w, const struct stk_desc *desc, int32_t d, struct stk_error *err)
{
	if (d < 0 || desc->shape[d] < 0 || w->extent[d] < 0 || (w->start[d] >= 0 && w->start[d] + w->extent[d] <= desc->shape[d]))
		return STK_OK;
	bool frames = stk__layout_of(desc)[d] == 'F';
	return stk__fail(err, STK_UNSUPPORTED, "the window reaches outside the %s, which is not supported here; %s before",
		frames ? "frames of the sequence" : "depth of the volume", frames ? "add frames with pad" : "crop pads the volume");
}

enum stk_status stk__window_of_args(
	const struct stk_window_args *a, const struct stk_desc *desc, struct stk_window *out, struct stk_error *err)
{
	static const char names[] = "DHW";
	float extents[3], pos[3] = {a->crop_pos_z, a->crop_pos_y, a->crop_pos_x};
	enum stk_status s = read_extents(a, extents, err);
	if (s)
		return s;
	*out = stk__window_full(desc);
	for (int32_t i = 0; i < 3; i++) {
		int32_t d = i == 0 ? stk__window_depth(desc) : stk__layout_find(desc, names[i]);
		if (d >= 0)
			resolve_axis(extents[i], pos[i], a->rounding[0], desc->shape[d], &out->start[d], &out->extent[d]);
		else if (i > 0 && extents[i] > 0) /* images have no depth: the argument is ignored, as in DALI */
			return stk__fail(err, STK_SHAPE, "the window has an extent along %c, which is not in the layout \"%s\"", names[i],
				desc->layout);
	}
	return STK_OK;
}
