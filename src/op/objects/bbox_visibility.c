/* SPDX-License-Identifier: Apache-2.0
 * bbox_visibility: finds the boxes of an image that are large enough and not hidden by nearer ones. */
#include "base/cancel.h"
#include "op/objects/objects.h"

#include <stdlib.h>

struct bbox_visibility {
	bool occlusion;
	float min_size;
};

static const struct stk_arg_def bbox_visibility_args[] = {
	STK_ARG(struct bbox_visibility, occlusion, STK_ARG_BOOL, "true", STK_FREE, 0,
		"A box that nearer boxes cover together, or that lies outside the image, is not visible. Needs the depths as a third input."),
	STK_ARG(struct bbox_visibility, min_size, STK_ARG_FLOAT, "0.0", (0, HUGE_VAL), 0,
		"A box whose height or width inside the image is less than this is not visible."),
	STK_ARG_END,
};

/* A box in whole pixels, cut to the image: x0 <= x < x1. */
struct cell_box {
	int32_t x0, y0, x1, y1;
	int64_t index;
	double depth;
};

static enum stk_status bbox_visibility_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct bbox_visibility *a = call->args;
	const struct stk_desc *boxes = &call->in[0].desc;
	int64_t depths = -1, n = boxes->ndim == 2 ? boxes->shape[0] : -1;
	enum stk_status s = stk__objects_check(boxes, "boxes", 2, 4, err);
	if (s || (s = stk__objects_size_check(&call->in[1].desc, err)))
		return s;
	if (a->occlusion != (call->n_in > 2))
		return stk__fail(err, STK_INVALID,
			a->occlusion ? "occlusion needs the depths of boxes as a third input"
				     : "the third input, depths, has no use with occlusion=False: leave one of them out");
	if (a->occlusion &&
		((s = stk__objects_column(&call->in[2].desc, "depths", &depths, err)) || (s = stk__objects_same("depths", depths, n, err))))
		return s;
	call->out[0].desc = (struct stk_desc){STK_BOOL, 1, {n}, ""};
	return STK_OK;
}

static double clip(double v, double hi)
{
	return v > 0 ? (v < hi ? v : hi) : 0; /* NaN gives 0 */
}

/* Compares boxes for qsort. Nearer boxes come first. Of boxes at the same depth, the one with the higher index comes first, since it counts as being in
 * front. */
static int by_depth(const void *a, const void *b)
{
	const struct cell_box *p = a, *q = b;
	if (p->depth != q->depth)
		return p->depth < q->depth ? -1 : 1;
	return p->index > q->index ? -1 : p->index < q->index;
}

/* Returns true if the n boxes cover[], which are sorted by their tops, together cover column x of b. */
static bool column_covered(const struct cell_box *b, const struct cell_box *cover, int64_t n, int32_t x)
{
	int32_t y = b->y0;
	for (int64_t k = 0; k < n && cover[k].y0 <= y && y < b->y1; k++)
		if (cover[k].x0 <= x && x < cover[k].x1 && cover[k].y1 > y)
			y = cover[k].y1;
	return y >= b->y1;
}

/* Returns whether the n boxes cover[], which are sorted by their tops, together cover all of b. It is enough to check the first column of b, and each column
 * that follows the right edge of a box in cover[]: between these columns, no covering box ends. */
static bool covered(const struct cell_box *b, const struct cell_box *cover, int64_t n)
{
	bool all = column_covered(b, cover, n, b->x0);
	for (int64_t k = 0; k < n && all; k++)
		all = cover[k].x1 >= b->x1 || column_covered(b, cover, n, cover[k].x1);
	return all;
}

/* Sets out[] to the n boxes of v, with their depths. Boxes are extended to whole pixels, so that they include each pixel that they touch, and cut at the
 * image's borders. A box with a NaN becomes empty. STK_INVALID: a depth is NaN. */
static enum stk_status read_boxes(
	const double *v, const double *depths, int64_t n, const double hw[2], struct cell_box *out, struct stk_error *err)
{
	for (int64_t i = 0; i < n; i++, v += 4) {
		double x0 = fmin(v[0], v[2]), x1 = fmax(v[0], v[2]), y0 = fmin(v[1], v[3]), y1 = fmax(v[1], v[3]);
		bool any = !isnan(v[0] + v[1] + v[2] + v[3]);
		out[i] = (struct cell_box){.index = i, .depth = depths[i]};
		if (any) {
			out[i].x0 = (int32_t)clip(floor(x0), hw[1]);
			out[i].x1 = (int32_t)clip(ceil(x1), hw[1]);
			out[i].y0 = (int32_t)clip(floor(y0), hw[0]);
			out[i].y1 = (int32_t)clip(ceil(y1), hw[0]);
		}
		if (isnan(depths[i]))
			return stk__fail(err, STK_INVALID,
				"the depth of box %lld is not a number, so it cannot be ordered among the others", (long long)i);
	}
	return STK_OK;
}

static enum stk_status hide_covered(
	const struct stk_call *call, const double *v, int64_t n, const double hw[2], uint8_t *visible, struct stk_error *err)
{
	const double *depths;
	struct cell_box *boxes = stk__arena_take(call->tools->arena, ((size_t)n + 1) * sizeof *boxes);
	struct cell_box *cover = stk__arena_take(call->tools->arena, ((size_t)n + 1) * sizeof *cover);
	struct cell_box *seen = stk__arena_take(call->tools->arena, ((size_t)n + 1) * sizeof *seen);
	if (!boxes || !cover || !seen)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld boxes", (long long)n);
	enum stk_status s = stk__objects_values(call, 2, &depths, err);
	if (s || (s = read_boxes(v, depths, n, hw, boxes, err)))
		return s;
	qsort(boxes, (size_t)n, sizeof *boxes, by_depth);
	for (int64_t i = 0, n_seen = 0; i < n; i++) {
		const struct cell_box *b = &boxes[i];
		int64_t n_cover = 0, at;
		if (call->tools->cancel && stk__cancelled(call->tools->cancel))
			return STK_CANCELLED;
		for (int64_t k = 0; k < n_seen; k++)
			if (seen[k].x0 < b->x1 && seen[k].x1 > b->x0 && seen[k].y0 < b->y1 && seen[k].y1 > b->y0)
				cover[n_cover++] = seen[k];
		if (b->x0 >= b->x1 || b->y0 >= b->y1 || covered(b, cover, n_cover)) {
			visible[b->index] = false; /* not added to seen[]: it hides nothing that the boxes in seen[] do not hide already */
			continue;
		}
		for (at = n_seen++; at > 0 && seen[at - 1].y0 > b->y0; at--)
			seen[at] = seen[at - 1];
		seen[at] = *b;
	}
	return STK_OK;
}

static enum stk_status bbox_visibility_run(const struct stk_call *call, struct stk_error *err)
{
	const struct bbox_visibility *a = call->args;
	const double *v;
	double hw[2];
	enum stk_status s = stk__objects_values(call, 0, &v, err);
	if (s || (s = stk__objects_size(call, 1, hw, err)))
		return s;
	uint8_t *visible = call->out[0].data;
	int64_t n = call->in[0].desc.shape[0];
	for (int64_t i = 0; i < n; i++) {
		const double *b = v + 4 * i;
		visible[i] = fabs(clip(b[2], hw[1]) - clip(b[0], hw[1])) >= (double)a->min_size &&
			     fabs(clip(b[3], hw[0]) - clip(b[1], hw[0])) >= (double)a->min_size;
	}
	return a->occlusion ? hide_covered(call, v, n, hw, visible, err) : STK_OK;
}

const struct stk_op_def stk__op_bbox_visibility = {
	.name = "bbox_visibility",
	.doc = "Decides which boxes of an image are visible.\n\n"
	       "Inputs are boxes (left, top, right, bottom) in pixels, the image's size or shape (height and width come first), and "
	       "with occlusion the depths of the boxes. The output is one bool for each box. Boxes are opaque and fill each pixel that "
	       "they touch; of equally near boxes the later one is in front. The two corners of a box may be any two opposite ones.",
	.inputs = {2, 3},
	.host_inputs = 7,
	.args = bbox_visibility_args,
	.args_size = sizeof(struct bbox_visibility),
	.infer = bbox_visibility_infer,
	.run_cpu = bbox_visibility_run,
};
