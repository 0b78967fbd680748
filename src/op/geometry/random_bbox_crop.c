/* SPDX-License-Identifier: Apache-2.0
 * random_bbox_crop: draws a window that contains boxes as the arguments demand, and outputs the boxes in it. */
#include "op/geometry/bbox_crop.h"
#include "op/geometry/boxes.h"

#include <string.h>

struct random_bbox_crop {
	struct stk_floats aspect_ratio, scaling, thresholds;
	struct stk_ints crop_shape, input_shape;
	int64_t num_attempts, total_num_attempts, seed;
	float bbox_prune_threshold;
	bool all_boxes_above_threshold, allow_no_crop, ltrb, output_bbox_indices, quiet;
	const char *bbox_layout, *shape_layout, *threshold_type;
};

static const struct stk_arg_def random_bbox_crop_args[] = {
	STK_ARG(struct random_bbox_crop, scaling, STK_ARG_FLOATS, NULL, (0, 1), 0,
		"Range from which each extent of the window is drawn, as a fraction of the image's. Default: [1.0, 1.0]."),
	STK_ARG(struct random_bbox_crop, aspect_ratio, STK_ARG_FLOATS, NULL, (0, HUGE_VAL), 0,
		"Range of width / height: in pixels if input_shape is given, else of the fractions. For boxes of three dims also three "
		"ranges, of width / height, width / depth, height / depth. Default: [1.0, 1.0]."),
	STK_ARG(struct random_bbox_crop, thresholds, STK_ARG_FLOATS, "[0.0]", (0, 1), STK_SCALAR_OK,
		"Thresholds that boxes must reach, of which one is drawn for each search: see threshold_type."),
	{.name = "threshold_type",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct random_bbox_crop, threshold_type),
		.fallback = "\"iou\"",
		.choices = "iou|overlap",
		.doc = "The value that is compared with a threshold: intersection over union of a box and the window, or the fraction of "
		       "the box that lies inside."},
	STK_ARG(struct random_bbox_crop, all_boxes_above_threshold, STK_ARG_BOOL, "true", STK_FREE, 0,
		"All boxes must reach the threshold; false: one is enough."),
	STK_ARG(struct random_bbox_crop, allow_no_crop, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Allows the whole image as the result, as if that were one more threshold. No effect with crop_shape."),
	STK_ARG(struct random_bbox_crop, num_attempts, STK_ARG_INT, "1", (1, 1e6), 0,
		"Number of windows that are drawn before another threshold is drawn."),
	STK_ARG(struct random_bbox_crop, total_num_attempts, STK_ARG_INT, "-1", (-1, 1e6), 0,
		"Number of windows that are drawn before the best one is taken; -1: draw until one satisfies the threshold."),
	STK_ARG(struct random_bbox_crop, bbox_prune_threshold, STK_ARG_FLOAT, NULL, (0, 1), 0,
		"Keeps boxes of which at least this fraction lies in the window. Default: keeps those whose centre does."),
	STK_ARG(struct random_bbox_crop, bbox_layout, STK_ARG_STRING, NULL, STK_FREE, 0,
		"The meaning of a box's values, in any order: xyXY, start and end, or xyWH, start and extents; xyzXYZ or xyzWHD for three "
		"dims. Default: xyXY, xyzXYZ."),
	STK_ARG(struct random_bbox_crop, ltrb, STK_ARG_BOOL, "true", STK_FREE, 0,
		"False stands for bbox_layout=\"xyWH\", or xyzWHD, if that is not given."),
	STK_ARG(struct random_bbox_crop, crop_shape, STK_ARG_INTS, NULL, (1, 0x1p28), STK_PER_SAMPLE | STK_SCALAR_OK,
		"Extents of the window in pixels, instead of scaling and aspect_ratio; needs input_shape."),
	STK_ARG(struct random_bbox_crop, input_shape, STK_ARG_INTS, NULL, (1, 0x1p28), STK_PER_SAMPLE | STK_SCALAR_OK,
		"Extents of the image in pixels."),
	STK_ARG(struct random_bbox_crop, shape_layout, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Order of crop_shape and input_shape: WH or HW; W, H and D in any order for three dims. Default: WH, WHD."),
	STK_ARG(struct random_bbox_crop, output_bbox_indices, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Adds an output: the indices of the boxes that stay, int32."),
	STK_ARG(struct random_bbox_crop, quiet, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: nothing is printed in "
		"any case."),
	STK_ARG(struct random_bbox_crop, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

static int32_t random_bbox_crop_outputs(const void *args)
{
	return 3 + ((const struct random_bbox_crop *)args)->output_bbox_indices;
}

/* The order of a box's values. coordinate[k] is what the k-th value stands for: d for the start along dim d; ndim + d for the end along dim d or, with
 * `extents`, for the extent along dim d. */
struct box_layout {
	int32_t ndim, coordinate[2 * STK_BBOX_DIMS];
	bool extents;
};

static enum stk_status read_layout(const struct random_bbox_crop *a, int32_t ndim, struct box_layout *out, struct stk_error *err)
{
	static const char *const usual[2][2] = {{"xyXY", "xyWH"}, {"xyzXYZ", "xyzWHD"}};
	const char *layout = a->bbox_layout && a->bbox_layout[0] ? a->bbox_layout : usual[ndim - 2][!a->ltrb];
	*out = (struct box_layout){.ndim = ndim, .extents = strchr(layout, 'W') != NULL};
	const char *order = usual[ndim - 2][out->extents];
	unsigned seen = 0;
	for (int32_t k = 0; k < 2 * ndim && (int32_t)strlen(layout) == 2 * ndim; k++) {
		const char *at = strchr(order, layout[k]);
		out->coordinate[k] = at ? (int32_t)(at - order) : 0;
		seen |= at ? 1u << out->coordinate[k] : 0;
	}
	if (seen != (1u << 2 * ndim) - 1)
		return stk__fail(err, STK_INVALID, "bbox_layout \"%s\" must have the letters of %s or %s, each once", layout,
			usual[ndim - 2][0], usual[ndim - 2][1]);
	return STK_OK;
}

static enum stk_status read_box(const struct box_layout *l, const float *v, int64_t i, struct stk_span_box *out, struct stk_error *err)
{
	float *ends[2] = {out->lo, out->hi};
	for (int32_t k = 0; k < 2 * l->ndim; k++)
		ends[l->coordinate[k] >= l->ndim][l->coordinate[k] % l->ndim] = v[k];
	for (int32_t d = 0; d < l->ndim; d++) {
		const float slack = 1e-5f; /* how far the end of a box may exceed 1, because of rounding */
		out->hi[d] += l->extents ? out->lo[d] : 0;
		if (!(out->lo[d] >= 0 && out->lo[d] <= out->hi[d] && out->hi[d] <= 1 + slack))
			return stk__fail(err, STK_INVALID,
				"box %lld goes from %g to %g along dim %d; boxes are relative to the image, from 0 to 1, and must end after "
				"they begin",
				(long long)i, (double)out->lo[d], (double)out->hi[d], d);
		out->hi[d] = out->hi[d] < 1 ? out->hi[d] : 1;
	}
	return STK_OK;
}

static void write_box(const struct box_layout *l, const struct stk_span_box *box, float *v)
{
	for (int32_t k = 0; k < 2 * l->ndim; k++) {
		int32_t d = l->coordinate[k] % l->ndim;
		bool end = l->coordinate[k] >= l->ndim;
		v[k] = !end ? box->lo[d] : l->extents ? box->hi[d] - box->lo[d] : box->hi[d];
	}
}

static enum stk_status read_shape(const struct random_bbox_crop *a, const char *name, struct stk_ints v, int32_t ndim,
	int64_t out[STK_BBOX_DIMS], struct stk_error *err)
{
	const char *layout = a->shape_layout && a->shape_layout[0] ? a->shape_layout : ndim == 2 ? "WH" : "WHD";
	for (int32_t d = 0; d < ndim; d++) {
		const char *at = strchr(layout, "WHD"[d]);
		if (!at || (int32_t)strlen(layout) != ndim)
			return stk__fail(
				err, STK_INVALID, "shape_layout \"%s\" must have the letters %.*s, each once", layout, ndim, "WHD");
		if (v.count != 1 && v.count != ndim)
			return stk__fail(err, STK_INVALID, "%s has %d values for boxes of %d dims", name, v.count, ndim);
		out[d] = v.v[v.count == 1 ? 0 : at - layout];
	}
	return STK_OK;
}

static enum stk_status check_range(const char *name, struct stk_floats v, struct stk_error *err)
{
	for (int32_t k = 0; k + 1 < v.count; k += 2)
		if (!(v.v[k] <= v.v[k + 1]))
			return stk__fail(err, STK_INVALID, "%s goes from %g to %g: the least must come first", name, (double)v.v[k],
				(double)v.v[k + 1]);
	return STK_OK;
}

static enum stk_status check_args(const struct stk_call *call, struct stk_error *err)
{
	const struct random_bbox_crop *a = call->args;
	bool fixed = a->crop_shape.count >= 0 || stk__varies(call, &a->crop_shape);
	if (a->scaling.count >= 0 && a->scaling.count != 2)
		return stk__fail(err, STK_INVALID, "scaling has %d values; it takes a least and a most", a->scaling.count);
	if (a->aspect_ratio.count >= 0 && a->aspect_ratio.count != 2 && a->aspect_ratio.count != 6)
		return stk__fail(err, STK_INVALID, "aspect_ratio has %d values; it takes a least and a most, or three such pairs",
			a->aspect_ratio.count);
	if (fixed && (a->scaling.count >= 0 || a->aspect_ratio.count >= 0))
		return stk__fail(err, STK_INVALID, "crop_shape gives the extents of windows: leave out scaling and aspect_ratio");
	if (fixed && a->input_shape.count < 0 && !stk__varies(call, &a->input_shape))
		return stk__fail(err, STK_INVALID, "crop_shape is in pixels and needs input_shape");
	if (a->thresholds.count == 0 || a->total_num_attempts == 0)
		return stk__fail(err, STK_INVALID,
			a->total_num_attempts ? "thresholds is empty: give one at least"
					      : "total_num_attempts is 0: give 1 or more, or -1 for no limit");
	enum stk_status s = check_range("scaling", a->scaling, err);
	return s ? s : check_range("aspect_ratio", a->aspect_ratio, err);
}

static enum stk_status make_search(const struct stk_call *call, int32_t ndim, struct stk_bbox_search *s, struct stk_error *err)
{
	const struct random_bbox_crop *a = call->args;
	*s = (struct stk_bbox_search){.ndim = ndim,
		.scale = {a->scaling.count == 2 ? a->scaling.v[0] : 1, a->scaling.count == 2 ? a->scaling.v[1] : 1},
		.extent = {1, 1, 1},
		.fixed = a->crop_shape.count >= 0,
		.thresholds = a->thresholds,
		.overlap = a->threshold_type[0] == 'o',
		.all_boxes = a->all_boxes_above_threshold,
		.allow_none = a->allow_no_crop && a->crop_shape.count < 0,
		.prune = a->bbox_prune_threshold,
		.attempts = a->num_attempts,
		.total_attempts = a->total_num_attempts,
		.cancel = call->tools->cancel};
	for (int p = 0; p < 3; p++)
		for (int i = 0; i < 2; i++)
			s->ratio[p][i] = a->aspect_ratio.count < 0 ? 1 : a->aspect_ratio.v[a->aspect_ratio.count == 6 ? 2 * p + i : i];
	int64_t extent[STK_BBOX_DIMS];
	enum stk_status status = a->input_shape.count >= 0 ? read_shape(a, "input_shape", a->input_shape, ndim, extent, err) : STK_OK;
	for (int32_t d = 0; d < ndim && a->input_shape.count >= 0 && !status; d++)
		s->extent[d] = (float)extent[d];
	return status || !s->fixed ? status : read_shape(a, "crop_shape", a->crop_shape, ndim, s->window, err);
}

/* The result of infer: the window, and the indices stay[0 .. count - 1] of the boxes that stay. */
struct cropped {
	struct stk_bbox_found found;
	struct box_layout layout;
	struct stk_span_box *boxes; /* all boxes of the input */
	int32_t *stay, count;
};

static enum stk_status check_inputs(const struct stk_call *call, int32_t *ndim, struct stk_error *err)
{
	const struct stk_desc *boxes = &call->in[0].desc, *labels = call->n_in > 1 ? &call->in[1].desc : NULL;
	*ndim = boxes->ndim == 2 && boxes->shape[1] >= 0 ? (int32_t)(boxes->shape[1] / 2) : -1;
	if (boxes->dtype != STK_NO_DTYPE && boxes->dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "boxes must be of float32, not %s; cast them", stk_dtype_name(boxes->dtype));
	if (boxes->ndim >= 0 && (boxes->ndim != 2 || (boxes->shape[1] >= 0 && boxes->shape[1] != 4 && boxes->shape[1] != 6)))
		return stk__fail(err, STK_SHAPE, "boxes must be a tensor of shape (number, 4), or (number, 6) for three dims");
	if (labels && labels->dtype != STK_NO_DTYPE && labels->dtype != STK_INT32)
		return stk__fail(err, STK_UNSUPPORTED, "labels must be of int32, not %s; cast them", stk_dtype_name(labels->dtype));
	if (labels && labels->ndim >= 0 && labels->ndim != 1 && (labels->ndim != 2 || (labels->shape[1] >= 0 && labels->shape[1] != 1)))
		return stk__fail(err, STK_SHAPE, "labels must be a tensor of shape (number) or (number, 1), not of %d dims", labels->ndim);
	if (labels && labels->ndim >= 0 && boxes->ndim >= 0 && labels->shape[0] >= 0 && boxes->shape[0] >= 0 &&
		labels->shape[0] != boxes->shape[0])
		return stk__fail(err, STK_SHAPE, "%lld labels for %lld boxes: give one a box", (long long)labels->shape[0],
			(long long)boxes->shape[0]);
	return STK_OK;
}

static enum stk_status crop(const struct stk_call *call, int32_t ndim, struct cropped *c, struct stk_error *err)
{
	struct stk_bbox_search search;
	struct stk_random r = call->random;
	const float *v = call->in[0].data;
	int64_t n = call->in[0].desc.shape[0];
	enum stk_status s = read_layout(call->args, ndim, &c->layout, err);
	if (s || (s = make_search(call, ndim, &search, err)))
		return s;
	c->boxes = stk__arena_take(call->tools->arena, (size_t)n * sizeof *c->boxes + 1);
	c->stay = stk__arena_take(call->tools->arena, (size_t)n * sizeof *c->stay + 1);
	if (!c->boxes || !c->stay)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld boxes", (long long)n);
	for (int64_t i = 0; i < n && !s; i++)
		s = read_box(&c->layout, v + i * 2 * ndim, i, &c->boxes[i], err);
	search.boxes = c->boxes;
	search.n_boxes = (int32_t)n;
	if (s || (s = stk__bbox_search(&search, &r, &c->found, err)))
		return s;
	for (int32_t i = 0; i < n; i++)
		if (c->found.whole || stk__bbox_stays(&search, &c->found.window, &c->boxes[i]))
			c->stay[c->count++] = i;
	return STK_OK;
}

static enum stk_status random_bbox_crop_infer(const struct stk_call *call, struct stk_error *err)
{
	struct cropped *c = call->state;
	int32_t ndim, indices = call->n_in > 1 ? 4 : 3;
	enum stk_status s = check_inputs(call, &ndim, err);
	if (s || (s = check_args(call, err)))
		return s;
	for (int32_t k = 0; k < 2; k++)
		call->out[k].desc = (struct stk_desc){STK_FLOAT, 1, {ndim}, ""};
	if (!stk__building(call) && (s = crop(call, ndim, c, err)))
		return s;
	int64_t count = stk__building(call) ? -1 : c->count;
	for (int32_t k = 0; k < call->n_in; k++) {
		call->out[2 + k].desc = call->in[k].desc;
		if (call->in[k].desc.ndim >= 0)
			call->out[2 + k].desc.shape[0] = count;
	}
	if (call->n_out > indices)
		call->out[indices].desc = (struct stk_desc){STK_INT32, 1, {count}, ""};
	return STK_OK;
}

/* Converts a box to coordinates relative to the window, cut off at its edges. A window that is the whole space leaves the box unchanged. */
static void into_window(const struct cropped *c, struct stk_span_box *box)
{
	const struct stk_span_box *w = &c->found.window;
	for (int32_t d = 0; d < c->layout.ndim; d++) {
		float extent = w->hi[d] - w->lo[d], *ends[2] = {&box->lo[d], &box->hi[d]};
		for (int i = 0; i < 2 && !c->found.whole; i++) {
			float at = (*ends[i] - w->lo[d]) / extent;
			*ends[i] = at > 0 ? at < 1 ? at : 1 : 0;
		}
	}
}

static enum stk_status random_bbox_crop_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct cropped *c = call->state;
	int32_t ndim = c->layout.ndim, indices = call->n_in > 1 ? 4 : 3;
	memcpy(call->out[0].data, c->found.lo, (size_t)ndim * sizeof(float));
	memcpy(call->out[1].data, c->found.size, (size_t)ndim * sizeof(float));
	for (int32_t i = 0; i < c->count; i++) {
		struct stk_span_box box = c->boxes[c->stay[i]];
		into_window(c, &box);
		write_box(&c->layout, &box, (float *)call->out[2].data + (ptrdiff_t)i * 2 * ndim);
		if (call->n_in > 1)
			((int32_t *)call->out[3].data)[i] = ((const int32_t *)call->in[1].data)[c->stay[i]];
		if (call->n_out > indices)
			((int32_t *)call->out[indices].data)[i] = c->stay[i];
	}
	return STK_OK;
}

const struct stk_op_def stk__op_random_bbox_crop = {
	.name = "random_bbox_crop",
	.doc = "Draws a window of an image that contains enough of its boxes, and outputs the boxes in it.\n\n"
	       "The input is boxes, float32 rows of 4 values (6 for three dims), relative to the image, whose extents are 1; a second "
	       "input, int32, has their labels. Outputs: the window's start and extents, float32, (x, y) and (width, height), as slice "
	       "takes them, relative or with crop_shape in pixels; the boxes that stay, relative to the window and cut off at its "
	       "edges; their labels, if these are an input; their indices, with output_bbox_indices. If the input has boxes, a window "
	       "in which none stays is not accepted, except as the best of total_num_attempts.",
	.inputs = {1, 2},
	.output_count = random_bbox_crop_outputs,
	.host_inputs = 3,
	.args = random_bbox_crop_args,
	.args_size = sizeof(struct random_bbox_crop),
	.state_size = sizeof(struct cropped),
	.flags = STK_OP_RANDOM | STK_OP_OPTIONAL_OUTPUTS,
	.infer = random_bbox_crop_infer,
	.run_cpu = random_bbox_crop_run,
};
