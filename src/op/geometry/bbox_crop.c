/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/bbox_crop.h"

#include "base/cancel.h"
#include "base/error.h"

#include <math.h>

/* An unlimited search fails after this many draws. */
enum { HOPELESS = 200000 };

static double volume_of(const struct stk_span_box *b, int32_t ndim)
{
	double volume = 1;
	for (int32_t d = 0; d < ndim; d++)
		volume *= b->hi[d] > b->lo[d] ? (double)b->hi[d] - (double)b->lo[d] : 0;
	return volume;
}

static double common_volume(const struct stk_span_box *a, const struct stk_span_box *b, int32_t ndim)
{
	struct stk_span_box both = {0};
	for (int32_t d = 0; d < ndim; d++) {
		both.lo[d] = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
		both.hi[d] = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
	}
	return volume_of(&both, ndim);
}

static bool holds_centroid(const struct stk_span_box *window, const struct stk_span_box *box, int32_t ndim)
{
	bool inside = true;
	for (int32_t d = 0; d < ndim; d++) {
		float centre = (box->lo[d] + box->hi[d]) * 0.5f;
		inside &= centre >= window->lo[d] && centre <= window->hi[d];
	}
	return inside;
}

bool stk__bbox_stays(const struct stk_bbox_search *s, const struct stk_span_box *window, const struct stk_span_box *box)
{
	double all = volume_of(box, s->ndim), inside = common_volume(window, box, s->ndim);
	if (isnan(s->prune) || all <= 0)
		return holds_centroid(window, box, s->ndim);
	return inside > 0 && inside / all >= (double)s->prune;
}

/* Returns a measure of how much of the box is in the window. With s->overlap, this is the share of the box that lies in the window; for a box without area,
 * 1 if the window contains its centroid, else 0. Without s->overlap, it is the IoU (intersection over union) of window and box. */
static double metric(const struct stk_bbox_search *s, const struct stk_span_box *window, const struct stk_span_box *box)
{
	double inside = common_volume(window, box, s->ndim), own = volume_of(box, s->ndim);
	if (s->overlap)
		return own > 0 ? inside / own : holds_centroid(window, box, s->ndim) ? 1 : 0;
	double all = own + volume_of(window, s->ndim) - inside;
	return all > 0 ? inside / all : 0;
}

/* Returns the smallest metric of all boxes if s->all_boxes is set, otherwise the largest; 1 if there are no boxes. */
static double metric_of_all(const struct stk_bbox_search *s, const struct stk_span_box *window)
{
	double result = s->all_boxes ? 1 : 0;
	for (int32_t i = 0; i < s->n_boxes; i++) {
		double m = metric(s, window, &s->boxes[i]);
		if (s->all_boxes ? m < result : m > result)
			result = m;
	}
	return s->n_boxes ? result : 1;
}

/* Changes size[i] and size[k] so that their quotient in pixels is `ratio`: the smaller one grows or, if it would exceed 1, the larger one shrinks. */
static void fix_ratio(const struct stk_bbox_search *s, double size[], int i, int k, double ratio)
{
	double wanted = size[i] * (double)s->extent[i] / ratio / (double)s->extent[k];
	if (wanted < size[k])
		wanted = size[k];
	double other = wanted * (double)s->extent[k] * ratio / (double)s->extent[i];
	double most = wanted > other ? wanted : other;
	size[k] = most > 1 ? wanted / most : wanted;
	size[i] = most > 1 ? other / most : other;
}

/* Draws a window's extents uniformly from the scale's range. If only one ratio of two dims is allowed, changes the extents to that ratio. Returns false if
 * a ratio is outside of its range. */
static bool draw_extents(const struct stk_bbox_search *s, struct stk_random *r, double size[STK_BBOX_DIMS])
{
	static const int pairs[3][2] = {{0, 1}, {0, 2}, {1, 2}};
	int n = s->ndim == 2 ? 1 : 3;
	for (int32_t d = 0; d < s->ndim; d++)
		size[d] = (double)s->scale[0] + ((double)s->scale[1] - (double)s->scale[0]) * stk__random_double(r);
	for (int turn = 0; turn < 2; turn++)
		for (int p = 0; p < n; p++)
			if (s->ratio[p][0] == s->ratio[p][1] && s->ratio[p][0] > 0)
				fix_ratio(s, size, pairs[p][0], pairs[p][1], (double)s->ratio[p][0]);
	for (int p = 0; p < n; p++) {
		double a = size[pairs[p][0]] * (double)s->extent[pairs[p][0]], b = size[pairs[p][1]] * (double)s->extent[pairs[p][1]],
		       slack = 1e-6;
		if (!(a >= (double)s->ratio[p][0] * b * (1 - slack) && a <= (double)s->ratio[p][1] * b * (1 + slack)))
			return false;
	}
	return true;
}

static bool draw_window(const struct stk_bbox_search *s, struct stk_random *r, struct stk_bbox_found *out)
{
	double size[STK_BBOX_DIMS];
	*out = (struct stk_bbox_found){.whole = false};
	if (!s->fixed && !draw_extents(s, r, size))
		return false;
	for (int32_t d = 0; d < s->ndim; d++) {
		double unit = s->fixed ? (double)s->extent[d] : 1;
		if (s->fixed) {
			int64_t free_pixels = (int64_t)s->extent[d] - s->window[d];
			uint32_t at = stk__random_below(r, (uint32_t)(free_pixels < 0 ? -free_pixels : free_pixels) + 1);
			out->lo[d] = (float)(free_pixels < 0 ? -(int64_t)at : (int64_t)at);
			out->size[d] = (float)s->window[d];
		} else {
			out->size[d] = (float)size[d];
			out->lo[d] = (float)(stk__random_double(r) * (1 - size[d]));
		}
		out->window.lo[d] = (float)((double)out->lo[d] / unit);
		out->window.hi[d] = (float)(((double)out->lo[d] + (double)out->size[d]) / unit);
	}
	return true;
}

static void take_whole(const struct stk_bbox_search *s, struct stk_bbox_found *out)
{
	*out = (struct stk_bbox_found){.whole = true};
	for (int32_t d = 0; d < s->ndim; d++)
		out->size[d] = out->window.hi[d] = 1;
}

static bool any_stays(const struct stk_bbox_search *s, const struct stk_span_box *window)
{
	for (int32_t i = 0; i < s->n_boxes; i++)
		if (stk__bbox_stays(s, window, &s->boxes[i]))
			return true;
	return s->n_boxes == 0;
}

enum stk_status stk__bbox_search(const struct stk_bbox_search *s, struct stk_random *r, struct stk_bbox_found *out, struct stk_error *err)
{
	double best = -1;
	int64_t count = 0, most = s->total_attempts < 0 ? HOPELESS : s->total_attempts;
	take_whole(s, out);
	while (count < most) {
		uint32_t option = stk__random_below(r, (uint32_t)s->thresholds.count + s->allow_none);
		if (option == (uint32_t)s->thresholds.count) {
			take_whole(s, out);
			return STK_OK;
		}
		for (int64_t i = 0; i < s->attempts && count < most; i++, count++) {
			struct stk_bbox_found candidate;
			if (count % 1024 == 1023 && stk__cancelled(s->cancel))
				return stk__fail(err, STK_CANCELLED, "the pipeline was cancelled");
			if (!draw_window(s, r, &candidate))
				continue;
			double reached_metric = metric_of_all(s, &candidate.window);
			if (reached_metric > best) {
				best = reached_metric;
				*out = candidate;
			}
			if (reached_metric >= (double)s->thresholds.v[option] && any_stays(s, &candidate.window)) {
				*out = candidate;
				return STK_OK;
			}
		}
	}
	if (s->total_attempts < 0)
		return stk__fail(err, STK_INVALID,
			"none of %d windows contains the boxes as thresholds demand; give total_num_attempts, which takes the best one, "
			"lower thresholds, or allow_no_crop",
			HOPELESS);
	return STK_OK;
}
