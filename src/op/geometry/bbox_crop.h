/* SPDX-License-Identifier: Apache-2.0
 * The search of random_bbox_crop: draws random windows until one contains boxes as the arguments demand. Coordinates are relative to the space of the
 * boxes, whose extents are 1. */
#ifndef STK_OP_GEOMETRY_BBOX_CROP_H
#define STK_OP_GEOMETRY_BBOX_CROP_H

#include "op/op.h"

enum { STK_BBOX_DIMS = 3 };

struct stk_span_box {
	float lo[STK_BBOX_DIMS], hi[STK_BBOX_DIMS];
};

struct stk_bbox_search {
	int32_t ndim, n_boxes;
	const struct stk_span_box *boxes;
	/* how a window is drawn */
	float scale[2], ratio[3][2];   /* minimum and maximum of the window's extents, and of their ratios x/y, x/z and y/z */
	float extent[STK_BBOX_DIMS];   /* extents in pixels of the space that is cropped; 1 if they are not known */
	int64_t window[STK_BBOX_DIMS]; /* extents of the window in pixels, if `fixed` */
	bool fixed;
	/* which windows are accepted */
	struct stk_floats thresholds;
	bool overlap, all_boxes, allow_none;
	/* minimum share of a box's area that must lie in the window for the box to stay; NAN: its centroid must lie in the window */
	float prune;
	int64_t attempts, total_attempts; /* number of windows to draw for one threshold, and in total (below 0: unlimited) */
	const struct stk_cancel *cancel;
};

struct stk_bbox_found {
	float lo[STK_BBOX_DIMS], size[STK_BBOX_DIMS]; /* in pixels if `fixed` of the search is set, otherwise parts of the extents */
	struct stk_span_box window;                   /* bounds as parts of the extents */
	bool whole;                                   /* the window is the whole space: all boxes stay unchanged */
};

/* Draws a threshold, then up to s->attempts windows, and repeats this until a window is accepted. With s->allow_none, the whole space may be drawn instead of a
 * threshold. After s->total_attempts windows takes the best one, or the whole space if none could be drawn. STK_INVALID: an unlimited search found none. */
STK_MUST_USE enum stk_status stk__bbox_search(
	const struct stk_bbox_search *s, struct stk_random *r, struct stk_bbox_found *out, struct stk_error *err);

/* Returns whether a box is kept if the window is cropped. This depends on its centroid or on the share of its area in the window (s->prune). */
bool stk__bbox_stays(const struct stk_bbox_search *s, const struct stk_span_box *window, const struct stk_span_box *box);

#endif
