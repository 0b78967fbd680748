/* SPDX-License-Identifier: Apache-2.0
 * affine_augmentation: draws a random transform of images, and scales images to their output size. */
#include "base/math.h"
#include "op/geometry/affine.h"
#include "op/objects/objects.h"

#include <string.h>

enum { KIND_TRANSLATE, KIND_SHIFT_INSIDE, KIND_ALIGN, KIND_ROTATE, KIND_SCALE, KIND_SHEAR, KIND_SELECT, KINDS };
enum { BORDER_TOP, BORDER_LEFT, BORDER_BOTTOM, BORDER_RIGHT };
enum { MAX_NESTING = 8 };

struct affine_augmentation {
	struct stk_floats steps;
	struct stk_ints output_hw;
	const char *mode, *anchor;
	int64_t seed;
};

static const struct stk_arg_def affine_augmentation_args[] = {
	STK_ARG(struct affine_augmentation, steps, STK_ARG_FLOATS, "[]", STK_FREE, 0,
		"Random transforms, one after the other, each as numbers: kind, probability, number of the values that follow, the values. "
		"Kinds and values: 0 translate: least x, largest x, least y, largest y, in pixels. 1 shift at random so that the image "
		"still fills its frame: along x, along y (1 or 0). 2 align with a border of the frame: 0 top, 1 left, 2 bottom, 3 "
		"right. 3 rotate: least and largest angle, in degrees, anticlockwise. 4 scale: least x, largest x, least y, largest y; "
		"or the least and the largest factor of both. 5 shear: the same four, angles in degrees. 6 select one of several "
		"sequences of steps: for each its probability, the number of its steps' values, its steps."),
	STK_ARG(struct affine_augmentation, output_hw, STK_ARG_INTS, NULL, (1, 0x1p28), STK_REQUIRED, "Height and width of the output."),
	{.name = "mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct affine_augmentation, mode),
		.fallback = "\"stretch\"",
		.choices = "stretch|pad|crop",
		.doc = "How the image gets this size: stretch scales each axis by its own factor; pad scales both by one factor, so that "
		       "the whole image is visible; crop scales both by one factor, so that the image fills the output."},
	{.name = "anchor",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct affine_augmentation, anchor),
		.fallback = "\"center\"",
		.choices = "center|top_or_left|bottom_or_right",
		.doc = "The point of the image that keeps its place in the output, with pad and crop."},
	STK_OBJECTS_SEED(struct affine_augmentation),
	STK_ARG_END,
};

/* ---- steps ---- */

struct step {
	int32_t kind, count;
	float prob;
	const float *v;
};

/* Returns the step at v[*at], which must be complete, and moves *at past it. */
static struct step take_step(const float *v, int32_t *at)
{
	struct step s = {(int32_t)v[*at], (int32_t)v[*at + 2], v[*at + 1], v + *at + 3};
	*at += 3 + s.count;
	return s;
}

static enum stk_status next_step(const float *v, int32_t n, int32_t *at, struct step *out, struct stk_error *err)
{
	if (n - *at < 3 || !(v[*at] >= 0 && v[*at] < KINDS) || !(v[*at + 2] >= 0 && v[*at + 2] <= (float)(n - *at - 3)))
		return stk__fail(err, STK_INVALID, "steps: the values at %d are not a complete step of a known kind", *at);
	*out = take_step(v, at);
	return STK_OK;
}

static bool count_fits(const struct step *s)
{
	switch (s->kind) {
	case KIND_ALIGN:
		return s->count == 1 && s->v[0] >= BORDER_TOP && s->v[0] <= BORDER_RIGHT;
	case KIND_SHIFT_INSIDE:
	case KIND_ROTATE:
		return s->count == 2;
	case KIND_SCALE:
		return s->count == 2 || s->count == 4;
	case KIND_SELECT:
		return s->count > 0;
	default:
		return s->count == 4;
	}
}

static bool range_fits(const struct step *s)
{
	for (int32_t k = 0; k + 1 < s->count && s->kind != KIND_SHIFT_INSIDE && s->kind != KIND_SELECT; k += 2)
		if (!(s->v[k] <= s->v[k + 1]))
			return false;
	return true;
}

/* Checks a list of steps, and recursively the lists inside of selections. STK_INVALID: a step is incomplete, of an unknown kind, has a wrong number of
 * values or an empty range, or selections are nested too deeply. Each option of a selection is stored as its probability, the number of its values, and
 * these values, which are themselves a list of steps. */
static enum stk_status check_steps(const float *v, int32_t n, int32_t nesting, struct stk_error *err)
{
	enum stk_status e = STK_OK;
	for (int32_t at = 0; at < n && e == STK_OK;) {
		struct step s;
		if ((e = next_step(v, n, &at, &s, err)))
			return e;
		if (!count_fits(&s) || !range_fits(&s))
			return stk__fail(err, STK_INVALID,
				"steps: %d values do not fit a step of kind %d, or the first of a pair is larger than the second", s.count,
				s.kind);
		for (int32_t o = 0; s.kind == KIND_SELECT && o < s.count;) {
			if (s.count - o < 2 || !(s.v[o + 1] >= 0 && s.v[o + 1] <= (float)(s.count - o - 2)) || nesting == MAX_NESTING)
				return stk__fail(err, STK_INVALID, "steps: a selection has incomplete options, or is nested deeper than %d",
					MAX_NESTING);
			if ((e = check_steps(s.v + o + 2, (int32_t)s.v[o + 1], nesting + 1, err)))
				return e;
			o += 2 + (int32_t)s.v[o + 1];
		}
	}
	return e;
}

/* ---- applying the steps to a map ---- */

struct view {
	double w, h;
	struct stk_random random;
	struct stk_affine map; /* all steps so far, from positions in the original image to positions in the frame */
};

static void then(struct view *v, const struct stk_affine *step)
{
	struct stk_affine both;
	stk__affine_then(&v->map, step, &both);
	v->map = both;
}

static void then_about_center(struct view *v, struct stk_affine *step)
{
	step->m[0][2] = v->w / 2 - step->m[0][0] * v->w / 2 - step->m[0][1] * v->h / 2;
	step->m[1][2] = v->h / 2 - step->m[1][0] * v->w / 2 - step->m[1][1] * v->h / 2;
	then(v, step);
}

/* Sets *lo and *hi to where the image's edges are along an axis after the steps so far. Only correct if none of these steps has rotated or sheared the
 * image. */
static void edges(const struct view *v, int axis, double *lo, double *hi)
{
	double a = v->map.m[axis][2], b = a + v->map.m[axis][axis] * (axis ? v->h : v->w);
	*lo = fmin(a, b);
	*hi = fmax(a, b);
}

static void translate(struct view *v, double x, double y)
{
	v->map.m[0][2] += x;
	v->map.m[1][2] += y;
}

static void shift_inside(struct view *v, const struct step *s)
{
	double shift[2] = {0, 0};
	for (int axis = 0; axis < 2; axis++) {
		double lo, hi, extent = axis ? v->h : v->w;
		edges(v, axis, &lo, &hi);
		double least = extent - hi, most = -lo, draw = (double)stk__random_float(&v->random);
		if (s->v[axis] != 0 && least < most) /* the image is larger than its frame */
			shift[axis] = least + (most - least) * draw;
	}
	translate(v, shift[0], shift[1]);
}

static void align(struct view *v, int32_t border)
{
	double lo, hi;
	int axis = border == BORDER_TOP || border == BORDER_BOTTOM;
	edges(v, axis, &lo, &hi);
	double shift = border == BORDER_TOP || border == BORDER_LEFT ? -lo : (axis ? v->h : v->w) - hi;
	translate(v, axis ? 0 : shift, axis ? shift : 0);
}

static void run_steps(struct view *v, const float *values, int32_t n);

static void select_steps(struct view *v, const struct step *s)
{
	double draw = (double)stk__random_float(&v->random), sum = 0;
	for (int32_t o = 0; o < s->count; o += 2 + (int32_t)s->v[o + 1]) {
		sum += (double)s->v[o];
		if (draw <= sum) {
			run_steps(v, s->v + o + 2, (int32_t)s->v[o + 1]);
			return;
		}
	}
}

static void run_step(struct view *v, const struct step *s)
{
	struct stk_affine m;
	double x, y;
	stk__affine_identity(&m, 2);
	switch (s->kind) {
	case KIND_TRANSLATE:
		x = stk__draw_between(&v->random, s->v[0], s->v[1]);
		y = stk__draw_between(&v->random, s->v[2], s->v[3]);
		translate(v, x, y);
		break;
	case KIND_SHIFT_INSIDE:
		shift_inside(v, s);
		break;
	case KIND_ALIGN:
		align(v, (int32_t)s->v[0]);
		break;
	case KIND_ROTATE: /* y points down, so that a positive angle of the map is clockwise */
		stk__affine_rotate_2d(&m, -stk__radians(stk__draw_between(&v->random, s->v[0], s->v[1])));
		then_about_center(v, &m);
		break;
	case KIND_SCALE:
		m.m[0][0] = m.m[1][1] = stk__draw_between(&v->random, s->v[0], s->v[1]);
		if (s->count == 4)
			m.m[1][1] = stk__draw_between(&v->random, s->v[2], s->v[3]);
		then_about_center(v, &m);
		break;
	case KIND_SHEAR:
		x = stk__radians(stk__draw_between(&v->random, s->v[0], s->v[1]));
		y = stk__radians(stk__draw_between(&v->random, s->v[2], s->v[3]));
		m.m[0][1] = stk__sin(x) / stk__cos(x);
		m.m[1][0] = stk__sin(y) / stk__cos(y);
		then_about_center(v, &m);
		break;
	default:
		select_steps(v, s);
	}
}

/* Applies the steps, which check_steps must have accepted. */
static void run_steps(struct view *v, const float *values, int32_t n)
{
	for (int32_t at = 0; at < n;) {
		struct step s = take_step(values, &at);
		if (stk__random_float(&v->random) < s.prob)
			run_step(v, &s);
	}
}

static void resize_to(const struct affine_augmentation *a, struct view *v)
{
	double out_h = (double)a->output_hw.v[0], out_w = (double)a->output_hw.v[1], x = out_w / v->w, y = out_h / v->h;
	double keep = a->anchor[0] == 'c' ? 0.5 : a->anchor[0] == 't' ? 0 : 1;
	if (a->mode[0] != 's')
		x = y = a->mode[0] == 'p' ? fmin(x, y) : fmax(x, y);
	struct stk_affine m;
	stk__affine_identity(&m, 2);
	m.m[0][0] = x;
	m.m[1][1] = y;
	m.m[0][2] = keep * (out_w - x * v->w);
	m.m[1][2] = keep * (out_h - y * v->h);
	then(v, &m);
}

/* ---- the operator ---- */

static enum stk_status affine_augmentation_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct affine_augmentation *a = call->args;
	enum stk_status s = check_steps(a->steps.v, a->steps.count, 0, err);
	for (int32_t k = 0; k < call->n_in && s == STK_OK; k++)
		s = stk__objects_size_check(&call->in[k].desc, err);
	if (s == STK_OK && a->output_hw.count != 2)
		s = stk__fail(err, STK_INVALID, "output_hw has %d values; it takes height and width", a->output_hw.count);
	call->out[0].desc = stk__affine_desc(2);
	return s;
}

static enum stk_status affine_augmentation_run(const struct stk_call *call, struct stk_error *err)
{
	const struct affine_augmentation *a = call->args;
	double hw[2] = {0}, other[2];
	for (int32_t k = 0; k < call->n_in; k++) {
		enum stk_status s = stk__objects_size(call, k, k ? other : hw, err);
		if (s)
			return s;
		if (k && (other[0] != hw[0] || other[1] != hw[1]))
			return stk__fail(err, STK_SHAPE,
				"images that share a transform must have one size; the first is %g x %g, and number %d is %g x %g (height x "
				"width). Use one operator for each size",
				hw[0], hw[1], k + 1, other[0], other[1]);
	}
	struct view v = {.w = hw[1], .h = hw[0], .random = call->random};
	stk__affine_identity(&v.map, 2);
	run_steps(&v, a->steps.v, a->steps.count);
	resize_to(a, &v);
	stk__affine_write(&v.map, &call->out[0]);
	return STK_OK;
}

const struct stk_op_def stk__op_affine_augmentation = {
	.name = "affine_augmentation",
	.doc = "Draws an affine transform of images, and scales them to their output size.\n\n"
	       "Inputs are the sizes, or shapes, of the images that share the transform (height and width come first); they must be "
	       "equal. The output is one matrix of 2 rows and 3 columns, from positions in the image to those in the output: for "
	       "warp_affine with inverse_map=False, affine_points and transform_matrix. Steps move the image within a frame of its own "
	       "size, and rotate and scale it about the frame's centre. After a rotation or a shear the edges of the image are not "
	       "known: kinds 1 and 2 must come before these.",
	.inputs = {1, STK_MAX_INPUTS},
	.host_inputs = ~0ull,
	.args = affine_augmentation_args,
	.args_size = sizeof(struct affine_augmentation),
	.flags = STK_OP_RANDOM,
	.infer = affine_augmentation_infer,
	.run_cpu = affine_augmentation_run,
};
