/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/random_crop_args.h"

#include "base/math.h"

const struct stk_arg_def stk__random_crop_group[] = {
	STK_ARG(struct stk_random_crop_args, random_area, STK_ARG_FLOATS, "[0.08, 1.0]", (0, 1), 0,
		"Range from which the window's part of the image's area is drawn, uniformly."),
	STK_ARG(struct stk_random_crop_args, random_aspect_ratio, STK_ARG_FLOATS, "[0.75, 1.333333]", (1e-4, 1e4), 0,
		"Range from which width / height is drawn, uniformly in its logarithm."),
	STK_ARG(struct stk_random_crop_args, num_attempts, STK_ARG_INT, "10", (1, 1000), 0,
		"Number of draws after which the largest window of an allowed aspect ratio is taken."),
	STK_ARG(struct stk_random_crop_args, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

static enum stk_status check_range(const char *name, struct stk_floats range, bool may_be_0, struct stk_error *err)
{
	if (range.count != 2)
		return stk__fail(err, STK_INVALID, "%s has %d values; it takes a smallest and a largest one", name, range.count);
	if (!((range.v[0] > 0 || (may_be_0 && range.v[0] == 0)) && range.v[0] <= range.v[1]))
		return stk__fail(err, STK_INVALID, "%s is (%g, %g); it takes a smallest value %s 0, then a largest", name, range.v[0],
			range.v[1], may_be_0 ? "of at least" : "above");
	return STK_OK;
}

enum stk_status stk__random_crop_check(const struct stk_random_crop_args *a, bool may_be_empty, struct stk_error *err)
{
	enum stk_status s = check_range("random_area", a->random_area, may_be_empty, err);
	return s ? s : check_range("random_aspect_ratio", a->random_aspect_ratio, false, err);
}

static int32_t at_least_1(double v)
{
	return v < 1 ? 1 : v < INT32_MAX ? (int32_t)v : INT32_MAX;
}

/* Sets *out_w and *out_h to the largest window of an allowed aspect ratio in w x h pixels whose area does not exceed the largest allowed area. */
static void fall_back(const struct stk_random_crop_args *a, int32_t w, int32_t h, int32_t *out_w, int32_t *out_h)
{
	double lo = a->random_aspect_ratio.v[0], hi = a->random_aspect_ratio.v[1], ratio = (double)w / h;
	*out_w = ratio > hi ? at_least_1(round(h * hi)) : w;
	*out_h = ratio < lo ? at_least_1(round(w / lo)) : h;
	double share = a->random_area.v[1] * w * h / ((double)*out_w * *out_h);
	if (share < 1) {
		*out_w = at_least_1(*out_w * sqrt(share));
		*out_h = at_least_1(*out_h * sqrt(share));
	}
}

/* Draws an area and an aspect ratio, and sets *out_w and *out_h to the extents of the window, in whole pixels. */
static void draw_extents(const struct stk_random_crop_args *a, struct stk_random *r, int32_t w, int32_t h, double *out_w, double *out_h)
{
	const float *area = a->random_area.v, *aspect = a->random_aspect_ratio.v;
	double share = area[0] + (area[1] - area[0]) * (double)stk__random_float(r);
	double log_lo = stk__log(aspect[0]), log_hi = stk__log(aspect[1]);
	double ratio = stk__exp(log_lo + (log_hi - log_lo) * (double)stk__random_float(r));
	double pixels = share * w * h;
	*out_w = round(sqrt(pixels * ratio));
	*out_h = round(sqrt(pixels / ratio));
}

static bool attempt(const struct stk_random_crop_args *a, struct stk_random *r, int32_t w, int32_t h, int32_t *out_w, int32_t *out_h)
{
	const float *aspect = a->random_aspect_ratio.v;
	double wide, high;
	draw_extents(a, r, w, h, &wide, &high);
	*out_w = at_least_1(wide);
	*out_h = at_least_1(high);
	float rounded = (float)*out_w / (float)*out_h;
	return *out_w <= w && *out_h <= h && rounded >= aspect[0] && rounded <= aspect[1];
}

/* Returns true if, in w x h pixels, no allowed aspect ratio reaches the smallest area, so that every draw would fail. */
static bool hopeless(const struct stk_random_crop_args *a, int32_t w, int32_t h)
{
	double smallest = (double)a->random_area.v[0] * w * h;
	return (double)h * at_least_1(round(h * (double)a->random_aspect_ratio.v[1])) < smallest ||
	       (double)w * at_least_1(round(w / (double)a->random_aspect_ratio.v[0])) < smallest;
}

/* Draws where a window of out->w x out->h pixels lies in w x h pixels. */
static void draw_position(struct stk_random *r, int32_t w, int32_t h, struct stk_rect *out)
{
	out->x = (int32_t)stk__random_below(r, (uint32_t)(w - out->w) + 1);
	out->y = (int32_t)stk__random_below(r, (uint32_t)(h - out->h) + 1);
}

struct stk_rect stk__random_crop(const struct stk_random_crop_args *a, struct stk_random *r, int32_t w, int32_t h)
{
	struct stk_rect out = {0, 0, 0, 0};
	bool found = false;
	for (int64_t left = hopeless(a, w, h) ? 0 : a->num_attempts; left > 0 && !found; left--)
		found = attempt(a, r, w, h, &out.w, &out.h);
	if (!found)
		fall_back(a, w, h, &out.w, &out.h);
	draw_position(r, w, h, &out);
	return out;
}

struct stk_rect stk__random_smaller_crop(const struct stk_random_crop_args *a, struct stk_random *r, int32_t w, int32_t h)
{
	struct stk_rect out = {0, 0, 0, 0};
	for (int64_t left = a->num_attempts; left > 0; left--) {
		double wide, high;
		draw_extents(a, r, w, h, &wide, &high);
		if (wide >= w || high >= h)
			continue;
		out.w = (int32_t)wide;
		out.h = (int32_t)high;
		draw_position(r, w, h, &out);
		break;
	}
	return out;
}
