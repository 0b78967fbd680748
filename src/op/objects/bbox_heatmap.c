/* SPDX-License-Identifier: Apache-2.0
 * bbox_heatmap: draws the boxes of an image as a heatmap of Gaussians, and outputs the values that a detector learns for each box. */
#include "op/objects/objects.h"

#include "kernel/common/gaussian.h"

#include <string.h>

enum { OUT_MAP, OUT_ACTIVE, OUT_CENTER, OUT_OFFSET, OUT_HW, OUT_BOXES, OUTPUTS };

struct bbox_heatmap {
	struct stk_ints heatmap_hw;
	int64_t num_classes;
	struct stk_floats min_size;
	float min_area, min_radius, max_radius, radius_factor, sigma_factor;
	bool with_labels, with_valid, with_centers, per_class;
};

static const struct stk_arg_def bbox_heatmap_args[] = {
	STK_ARG(struct bbox_heatmap, heatmap_hw, STK_ARG_INTS, NULL, (1, 1 << 20), STK_REQUIRED, "Height and width of the heatmap."),
	STK_ARG(struct bbox_heatmap, with_labels, STK_ARG_BOOL, "false", STK_FREE, 0, "The third input contains the boxes' classes."),
	STK_ARG(struct bbox_heatmap, with_valid, STK_ARG_BOOL, "false", STK_FREE, 0,
		"The next input contains a bool for each box: only boxes with true are active."),
	STK_ARG(struct bbox_heatmap, with_centers, STK_ARG_BOOL, "false", STK_FREE, 0,
		"The next input contains a centre (x, y) for each box, in pixels of the image; otherwise the middle of the box is its "
		"centre. A box whose centre has a NaN is not active."),
	STK_ARG(struct bbox_heatmap, per_class, STK_ARG_BOOL, "false", STK_FREE, 0, "Makes a map for each class, along a new first dim."),
	STK_ARG(struct bbox_heatmap, num_classes, STK_ARG_INT, "0", (0, 1 << 16), 0,
		"Number of classes; boxes of other classes are not active. 0: all classes count."),
	STK_ARG(struct bbox_heatmap, min_size, STK_ARG_FLOATS, "[]", STK_FREE, 0,
		"Least height and width of an active box, on the heatmap after it is cut; or a pair for each class, one class after the "
		"other."),
	STK_ARG(struct bbox_heatmap, min_area, STK_ARG_FLOAT, "0.25", (0, 1), 0,
		"Least part of a box's area that must remain, after the box is cut to the heatmap, for it to be active."),
	STK_ARG(struct bbox_heatmap, min_radius, STK_ARG_FLOAT, "0.5", (0.5, 1 << 20), 0, "Least radius of a Gaussian."),
	STK_ARG(struct bbox_heatmap, max_radius, STK_ARG_FLOAT, "10.0", (0.5, 1 << 20), 0, "Largest radius of a Gaussian."),
	STK_ARG(struct bbox_heatmap, radius_factor, STK_ARG_FLOAT, "0.8", (0, HUGE_VAL), 0,
		"The radius is this part of the distance from the centre to the nearest side of the box, and 0 if the centre lies outside "
		"the box."),
	STK_ARG(struct bbox_heatmap, sigma_factor, STK_ARG_FLOAT, "0.33333334", (0, HUGE_VAL), 0,
		"The standard deviation of a Gaussian is this part of its radius."),
	STK_ARG_END,
};

/* The index of each optional input among the operator's inputs; -1: not given. */
struct heatmap_inputs {
	int32_t labels, valid, centers, count;
};

static struct heatmap_inputs inputs_of(const struct bbox_heatmap *a)
{
	struct heatmap_inputs in = {-1, -1, -1, 2};
	in.labels = a->with_labels ? in.count++ : -1;
	in.valid = a->with_valid ? in.count++ : -1;
	in.centers = a->with_centers ? in.count++ : -1;
	return in;
}

static enum stk_status check_arguments(const struct bbox_heatmap *a, int32_t n_in, struct stk_error *err)
{
	struct heatmap_inputs in = inputs_of(a);
	if (n_in != in.count)
		return stk__fail(err, STK_INVALID,
			"there are %d inputs; boxes, the image's size and the inputs of the with_* arguments are %d", n_in, in.count);
	if (a->heatmap_hw.count != 2)
		return stk__fail(err, STK_INVALID, "heatmap_hw has %d values; it takes height and width", a->heatmap_hw.count);
	if (a->per_class && (!a->with_labels || a->num_classes < 1))
		return stk__fail(err, STK_INVALID, "per_class needs with_labels and num_classes");
	if (a->min_size.count > 2 && (!a->with_labels || a->min_size.count != 2 * a->num_classes))
		return stk__fail(err, STK_INVALID, "min_size has %d values; it takes two, or with_labels two for each of num_classes",
			a->min_size.count);
	if (a->min_size.count == 1 || a->min_radius > a->max_radius)
		return stk__fail(
			err, STK_INVALID, a->min_size.count == 1 ? "min_size takes height and width" : "min_radius is above max_radius");
	return STK_OK;
}

static enum stk_status bbox_heatmap_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct bbox_heatmap *a = call->args;
	struct heatmap_inputs in = inputs_of(a);
	const struct stk_desc *boxes = &call->in[0].desc;
	int64_t n = boxes->ndim == 2 ? boxes->shape[0] : -1, count;
	enum stk_status s = check_arguments(a, call->n_in, err);
	if (s || (s = stk__objects_check(boxes, "boxes", 2, 4, err)) || (s = stk__objects_size_check(&call->in[1].desc, err)))
		return s;
	for (int32_t k = 2; k < in.count && k != in.centers; k++) {
		const char *what = k == in.labels ? "classes" : "valid flags";
		if ((s = stk__objects_column(&call->in[k].desc, what, &count, err)) || (s = stk__objects_same(what, count, n, err)))
			return s;
	}
	if (in.centers >= 0) {
		const struct stk_desc *c = &call->in[in.centers].desc;
		if ((s = stk__objects_check(c, "centres", 2, 2, err)) ||
			(s = stk__objects_same("centres", c->ndim == 2 ? c->shape[0] : -1, n, err)))
			return s;
	}
	struct stk_desc *map = &call->out[OUT_MAP].desc;
	*map = (struct stk_desc){STK_FLOAT, 2, {a->heatmap_hw.v[0], a->heatmap_hw.v[1]}, "HW"};
	if (a->per_class)
		*map = (struct stk_desc){STK_FLOAT, 3, {a->num_classes, a->heatmap_hw.v[0], a->heatmap_hw.v[1]}, "CHW"};
	call->out[OUT_ACTIVE].desc = (struct stk_desc){STK_BOOL, 1, {n}, ""};
	call->out[OUT_CENTER].desc = (struct stk_desc){STK_INT32, 2, {n, 2}, ""};
	call->out[OUT_OFFSET].desc = call->out[OUT_HW].desc = (struct stk_desc){STK_FLOAT, 2, {n, 2}, ""};
	call->out[OUT_BOXES].desc = (struct stk_desc){STK_FLOAT, 2, {n, 4}, ""};
	return STK_OK;
}

static double clip(double v, double hi)
{
	return v > 0 ? (v < hi ? v : hi) : 0; /* NaN gives 0 */
}

/* A box after scaling to the heatmap, in the heatmap's pixels and cut at its borders. box: left, top, right, bottom; center: x, y; hw: height, width. */
struct drawn {
	double box[4], center[2], hw[2], area; /* area: share of the box's area that lies on the heatmap, 0 to 1 */
	bool located;                          /* whether the centre is known: a NaN became 0 in center */
};

static struct drawn place_on_map(const double *box, const double *center, const double scale[2], const double limit[2])
{
	struct drawn d = {.located = true};
	double whole[2];
	for (int axis = 0; axis < 2; axis++) {
		double a = box[axis] * scale[axis], b = box[axis + 2] * scale[axis];
		double c = center ? center[axis] * scale[axis] : (a + b) / 2;
		d.box[axis] = clip(a, limit[axis]);
		d.box[axis + 2] = clip(b, limit[axis]);
		d.center[axis] = clip(c, limit[axis]);
		d.located = d.located && !isnan(c);
		d.hw[1 - axis] = fabs(d.box[axis + 2] - d.box[axis]);
		whole[axis] = fabs(b - a);
	}
	d.area = whole[0] * whole[1] > 0 ? d.hw[0] * d.hw[1] / (whole[0] * whole[1]) : 0;
	return d;
}

static double radius_of(const struct bbox_heatmap *a, const struct drawn *d)
{
	double nearest = INFINITY;
	for (int axis = 0; axis < 2; axis++) {
		double lo = fmin(d->box[axis], d->box[axis + 2]), hi = fmax(d->box[axis], d->box[axis + 2]);
		nearest = fmin(nearest, fmin(d->center[axis] - lo, hi - d->center[axis]));
	}
	double radius = fmax(nearest, 0) * (double)a->radius_factor;
	return fmin(fmax(radius, (double)a->min_radius), (double)a->max_radius);
}

static bool is_active(const struct bbox_heatmap *a, const struct drawn *d, double label)
{
	bool known = label >= 0 && (a->num_classes == 0 || label < (double)a->num_classes);
	const float *least = a->min_size.count == 2           ? a->min_size.v
			     : a->min_size.count > 2 && known ? a->min_size.v + 2 * (int64_t)label
							      : NULL;
	bool large = !least || (d->hw[0] >= (double)least[0] && d->hw[1] >= (double)least[1]);
	return (known || !a->with_labels) && d->located && large && d->area >= (double)a->min_area && d->area > 0;
}

static enum stk_status bbox_heatmap_run(const struct stk_call *call, struct stk_error *err)
{
	const struct bbox_heatmap *a = call->args;
	struct heatmap_inputs in = inputs_of(a);
	const double *values[5] = {NULL};
	double hw[2];
	enum stk_status s = stk__objects_size(call, 1, hw, err);
	for (int32_t k = 0; k < call->n_in && s == STK_OK; k++)
		s = k == 1 ? STK_OK : stk__objects_values(call, k, &values[k], err);
	if (s)
		return s;
	int64_t n = call->in[0].desc.shape[0], height = a->heatmap_hw.v[0], width = a->heatmap_hw.v[1];
	const double scale[2] = {(double)width / hw[1], (double)height / hw[0]}, limit[2] = {(double)(width - 1), (double)(height - 1)};
	float *map = call->out[OUT_MAP].data, *offset = call->out[OUT_OFFSET].data, *out_hw = call->out[OUT_HW].data;
	float *boxes = call->out[OUT_BOXES].data;
	uint8_t *active = call->out[OUT_ACTIVE].data;
	int32_t *center = call->out[OUT_CENTER].data;
	memset(map, 0, (size_t)stk_desc_bytes(&call->out[OUT_MAP].desc));
	for (int64_t i = 0; i < n; i++) {
		struct drawn d = place_on_map(values[0] + 4 * i, in.centers >= 0 ? values[in.centers] + 2 * i : NULL, scale, limit);
		double label = in.labels >= 0 ? values[in.labels][i] : 0, radius = radius_of(a, &d),
		       sigma = radius * (double)a->sigma_factor;
		active[i] = is_active(a, &d, label) && (in.valid < 0 || values[in.valid][i] != 0);
		for (int axis = 0; axis < 2; axis++) {
			center[2 * i + axis] = (int32_t)floor(d.center[axis]);
			offset[2 * i + axis] = (float)(d.center[axis] - floor(d.center[axis]));
			out_hw[2 * i + axis] = (float)d.hw[axis];
		}
		for (int k = 0; k < 4; k++)
			boxes[4 * i + k] = (float)d.box[k];
		if (active[i])
			stk__gaussian_draw(map + (a->per_class ? (int64_t)label * height * width : 0), width, height, center[2 * i],
				center[2 * i + 1], (int64_t)radius, sigma > 0 ? 1 / (2 * sigma * sigma) : HUGE_VAL, 1);
	}
	return STK_OK;
}

const struct stk_op_def stk__op_bbox_heatmap = {
	.name = "bbox_heatmap",
	.doc = "Draws boxes of an image as Gaussians into a heatmap.\n\n"
	       "Inputs are boxes (left, top, right, bottom) in pixels of the image, the image's size or shape (height and width come "
	       "first), then the inputs that the with_* arguments announce. Boxes and centres are scaled to the heatmap and cut to 0 "
	       ".. width - 1 and 0 .. height - 1. Outputs: the heatmap, float32; which boxes are active, the only ones that are drawn; "
	       "the pixels of their centres, int32; the centres' offsets from these pixels; their heights and widths; the boxes. All "
	       "but the first have a row for each box. A Gaussian is drawn over pixels whose distance from the centre's pixel is at "
	       "most its radius, along x and along y; where several Gaussians meet, the largest value is kept.",
	.inputs = {2, 5},
	.host_inputs = 31,
	.outputs = OUTPUTS,
	.args = bbox_heatmap_args,
	.args_size = sizeof(struct bbox_heatmap),
	.infer = bbox_heatmap_infer,
	.run_cpu = bbox_heatmap_run,
};
