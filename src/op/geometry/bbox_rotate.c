/* SPDX-License-Identifier: Apache-2.0
 * bbox_rotate: moves boxes with an image that rotate rotates. */
#include "op/geometry/boxes.h"
#include "op/geometry/canvas.h"

#include <string.h>

struct bbox_rotate {
	float angle, remove_threshold;
	struct stk_ints input_shape;
	struct stk_floats size;
	bool bbox_normalized, keep_size;
	const char *bbox_layout, *shape_layout, *mode;
};

static const struct stk_arg_def bbox_rotate_args[] = {
	STK_ARG(struct bbox_rotate, angle, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE | STK_REQUIRED, "Angle in degrees, as in rotate."),
	STK_ARG(struct bbox_rotate, input_shape, STK_ARG_INTS, NULL, (0, 0x1p28), STK_PER_SAMPLE | STK_REQUIRED,
		"Shape of the image before it is rotated, in the order of shape_layout; further values are ignored, so x.shape() of an "
		"image with layout HWC can be given."),
	{.name = "bbox_layout",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct bbox_rotate, bbox_layout),
		.fallback = "\"xyXY\"",
		.choices = "xyXY|xyWH",
		.doc = "Boxes are (left, top, right, bottom), or (left, top, width, height)."},
	STK_ARG(struct bbox_rotate, bbox_normalized, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Boxes are relative to the image, whose extents are 1, and afterwards to the rotated image; false: in pixels."),
	STK_ARG(struct bbox_rotate, keep_size, STK_ARG_BOOL, "false", STK_FREE, 0, "As rotate's."),
	STK_ARG(struct bbox_rotate, size, STK_ARG_FLOATS, NULL, (0, 0x1p24), STK_PER_SAMPLE,
		"(height, width), as in rotate. Default: none."),
	{.name = "mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct bbox_rotate, mode),
		.fallback = "\"expand\"",
		.choices = "expand|fixed|halfway",
		.doc = "expand: the box around the rotated box. fixed: of the same extents, about its centre, "
		       "width and height swapped beyond 45 degrees. halfway: the mean of both."},
	STK_ARG(struct bbox_rotate, remove_threshold, STK_ARG_FLOAT, "0.1", (0, 1), 0,
		"Removes boxes that keep less than this part of their area inside the output, and those without an area; 0: removes only "
		"boxes without area."),
	STK_ARG(struct bbox_rotate, shape_layout, STK_ARG_STRING, "\"HW\"", STK_FREE, 0, "Layout of input_shape: the places of H and W."),
	STK_ARG_END,
};

struct kept_boxes {
	float *boxes;
	int32_t *labels, count;
};

/* The extents (x, y) before and after the rotation, and the map from one to the other. */
struct box_rotation {
	double in[2], out[2];
	struct stk_affine map;
};

static enum stk_status read_turn(const struct bbox_rotate *a, struct box_rotation *t, struct stk_error *err)
{
	const char *h = strchr(a->shape_layout, 'H'), *w = strchr(a->shape_layout, 'W');
	int64_t in[2], out[2];
	if (!h || !w)
		return stk__fail(err, STK_INVALID, "shape_layout \"%s\" must name H and W", a->shape_layout);
	if (h - a->shape_layout >= a->input_shape.count || w - a->shape_layout >= a->input_shape.count)
		return stk__fail(
			err, STK_INVALID, "input_shape has %d values, fewer than its layout \"%s\"", a->input_shape.count, a->shape_layout);
	in[0] = a->input_shape.v[w - a->shape_layout];
	in[1] = a->input_shape.v[h - a->shape_layout];
	if (a->size.count > 0 && a->size.count != 2)
		return stk__fail(err, STK_INVALID, "size has %d values; it takes (height, width)", a->size.count);
	stk__affine_rotate_2d(&t->map, stk__canvas_radians(a->angle));
	stk__canvas(&t->map, in, out);
	/* The canvas needed the inverse. From here on the map leads from the image to the output. */
	stk__affine_rotate_2d(&t->map, -stk__canvas_radians(a->angle));
	for (int i = 0; i < 2; i++) {
		t->in[i] = (double)in[i];
		t->out[i] = a->size.count == 2 ? (double)roundf(a->size.v[1 - i]) : a->keep_size ? t->in[i] : (double)out[i];
		if (in[i] == 0 || t->out[i] == 0)
			return stk__fail(err, STK_SHAPE, "the image has no pixels");
	}
	return STK_OK;
}

static void rotate_point(const struct box_rotation *t, double x, double y, double out[2])
{
	for (int i = 0; i < 2; i++)
		out[i] = t->map.m[i][0] * (x - t->in[0] / 2) + t->map.m[i][1] * (y - t->in[1] / 2) + t->out[i] / 2;
}

/* Replaces a box (left, top, right, bottom, in pixels) by the upright box that stands for it after the rotation; `mode` defines its extents. */
static void rotate_box(const struct box_rotation *t, const char *mode, double box[4])
{
	double centre[2], half[2], fixed[2] = {(box[2] - box[0]) / 2, (box[3] - box[1]) / 2};
	bool swaps_sides =
		fabs(t->map.m[0][0]) <
		fabs(t->map.m[0][1]); /* true if the angle is nearer to a quarter turn than to none, so that width and height swap */
	rotate_point(t, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, centre);
	for (int i = 0; i < 2; i++) {
		double enclosing = fabs(t->map.m[i][0]) * fabs(fixed[0]) + fabs(t->map.m[i][1]) * fabs(fixed[1]),
		       fixed_side = fixed[swaps_sides ? 1 - i : i];
		half[i] = mode[0] == 'e' ? enclosing : mode[0] == 'f' ? fixed_side : (enclosing + fixed_side) / 2;
	}
	for (int i = 0; i < 4; i++)
		box[i] = centre[i % 2] + (i < 2 ? -half[i] : half[i - 2]);
}

static double clamped(double x, double most)
{
	return x > 0 ? x < most ? x : most : 0;
}

static bool gives_extents(const struct bbox_rotate *a)
{
	return a->bbox_layout[2] == 'W';
}

/* Reads a box of either layout, and makes it left, top, right, bottom. Returns false if a number is not finite, or if the box ends before it begins. */
static bool read_box(const struct bbox_rotate *a, const float *from, double box[4])
{
	bool sound = true;
	for (int i = 0; i < 4; i++) {
		box[i] = (double)from[i] + (gives_extents(a) && i >= 2 ? (double)from[i - 2] : 0);
		sound &= isfinite(from[i]) && (i < 2 || box[i] >= box[i - 2]);
	}
	return sound;
}

static enum stk_status refuse_box(const struct bbox_rotate *a, int64_t i, const float *box, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID, "box %lld is (%g, %g, %g, %g), which is %s; bbox_layout is \"%s\"%s", (long long)i,
		(double)box[0], (double)box[1], (double)box[2], (double)box[3],
		isfinite(box[0] + box[1] + box[2] + box[3]) ? "not a box: it ends before it begins" : "not finite", a->bbox_layout,
		gives_extents(a) ? "" : ", \"xyWH\" takes extents");
}

/* Rotates a box (left, top, right, bottom), cuts it off at the output's edges, and writes it to `to` in the user's layout and units; changes `box` too. Returns
 * false if the rotated box has no area, or too little of it lies in the output. */
static bool turn_box(const struct bbox_rotate *a, const struct box_rotation *t, double box[4], float *to)
{
	bool extents = gives_extents(a);
	for (int i = 0; i < 4; i++)
		box[i] *= a->bbox_normalized ? t->in[i % 2] : 1;
	rotate_box(t, a->mode, box);
	double before = (box[2] - box[0]) * (box[3] - box[1]);
	for (int i = 0; i < 4; i++)
		box[i] = clamped(box[i], t->out[i % 2]);
	double after = (box[2] - box[0]) * (box[3] - box[1]);
	for (int i = 0; i < 4; i++) {
		double x = box[i] - (extents && i >= 2 ? box[i - 2] : 0);
		to[i] = (float)(a->bbox_normalized ? x / t->out[i % 2] : x);
	}
	return before > 0 && after >= (double)a->remove_threshold * before;
}

static enum stk_status check_inputs(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *boxes = &call->in[0].desc, *labels = call->n_in > 1 ? &call->in[1].desc : NULL;
	enum stk_status s = stk__boxes_check_rows(boxes, err);
	if (s || !labels)
		return s;
	if (labels->dtype != STK_NO_DTYPE && labels->dtype != STK_INT32)
		return stk__fail(err, STK_UNSUPPORTED, "labels must be of int32, not %s; cast them", stk_dtype_name(labels->dtype));
	if (labels->ndim >= 0 && labels->ndim != 1 && (labels->ndim != 2 || (labels->shape[1] >= 0 && labels->shape[1] != 1)))
		return stk__fail(err, STK_SHAPE, "labels must be a tensor of shape (number) or (number, 1), not of %d dims", labels->ndim);
	if (labels->ndim >= 0 && boxes->ndim == 2 && labels->shape[0] >= 0 && boxes->shape[0] >= 0 && labels->shape[0] != boxes->shape[0])
		return stk__fail(err, STK_SHAPE, "%lld labels for %lld boxes: give one a box", (long long)labels->shape[0],
			(long long)boxes->shape[0]);
	return STK_OK;
}

static enum stk_status bbox_rotate_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct bbox_rotate *a = call->args;
	struct kept_boxes *kept = call->state;
	struct box_rotation t;
	enum stk_status s = check_inputs(call, err);
	for (int32_t k = 0; k < call->n_out; k++) {
		struct stk_desc *out = &call->out[k].desc;
		*out = call->in[k].desc;
		if (out->ndim >= 0)
			out->shape[0] = -1;
	}
	if (s || stk__building(call) || (s = read_turn(a, &t, err)))
		return s;
	int64_t n = call->in[0].desc.shape[0];
	kept->boxes = stk__arena_take(call->tools->arena, (size_t)n * 4 * sizeof(float) + 1);
	kept->labels = stk__arena_take(call->tools->arena, (size_t)n * sizeof(int32_t) + 1);
	if (!kept->boxes || !kept->labels)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld boxes", (long long)n);
	for (int64_t i = 0; i < n; i++) {
		const float *from = (const float *)call->in[0].data + 4 * i;
		double box[4];
		if (!read_box(a, from, box))
			return refuse_box(a, i, from, err);
		if (!turn_box(a, &t, box, kept->boxes + 4 * kept->count))
			continue;
		if (call->n_in > 1)
			kept->labels[kept->count] = ((const int32_t *)call->in[1].data)[i];
		kept->count++;
	}
	for (int32_t k = 0; k < call->n_out; k++)
		call->out[k].desc.shape[0] = kept->count;
	return STK_OK;
}

static enum stk_status bbox_rotate_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct kept_boxes *kept = call->state;
	memcpy(call->out[0].data, kept->boxes, (size_t)kept->count * 4 * sizeof(float));
	if (call->n_out > 1)
		memcpy(call->out[1].data, kept->labels, (size_t)kept->count * sizeof(int32_t));
	return STK_OK;
}

const struct stk_op_def stk__op_bbox_rotate = {
	.name = "bbox_rotate",
	.doc = "Moves boxes in the same way as rotate moves their image.\n\n"
	       "The input is float32, one box of four values a row; no box may end before it begins. A second input, int32, has their "
	       "labels, one a box. Boxes are cut off at the output's edges; boxes of which too little remains are removed, and their "
	       "labels with them. The outputs are the boxes, and their labels if these are an input.",
	.inputs = {1, 2},
	.host_inputs = 3,
	.args = bbox_rotate_args,
	.args_size = sizeof(struct bbox_rotate),
	.state_size = sizeof(struct kept_boxes),
	.flags = STK_OP_OPTIONAL_OUTPUTS,
	.infer = bbox_rotate_infer,
	.run_cpu = bbox_rotate_run,
};
