/* SPDX-License-Identifier: Apache-2.0
 * box_encoder: matches boxes with anchors, for the training of SSD (Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016). */
#include "base/math.h"
#include "op/geometry/boxes.h"

#include <string.h>

struct box_encoder {
	struct stk_floats anchors, means, stds;
	float criteria, scale;
	bool offset;
};

static const struct stk_arg_def box_encoder_args[] = {
	STK_ARG(struct box_encoder, anchors, STK_ARG_FLOATS, NULL, STK_FREE, STK_REQUIRED,
		"The anchors, one after the other, each as (left, top, right, bottom)."),
	STK_ARG(struct box_encoder, criteria, STK_ARG_FLOAT, "0.5", (0, 1), 0,
		"A box is matched with all anchors whose intersection over union with it is above this, and always with its best anchor."),
	STK_ARG(struct box_encoder, offset, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Outputs offsets from the anchors instead of boxes: (box's centre - anchor's centre) / anchor's extent, and the logarithm "
		"of box's extent / anchor's extent, both less means and divided by stds; 0 for anchors without a box."),
	STK_ARG(struct box_encoder, scale, STK_ARG_FLOAT, "1.0", STK_FREE, 0,
		"Boxes and anchors are multiplied by this before offsets are computed."),
	STK_ARG(struct box_encoder, means, STK_ARG_FLOATS, "[0.0, 0.0, 0.0, 0.0]", STK_FREE, 0,
		"Subtracted from the offsets of x, y, width and height."),
	STK_ARG(struct box_encoder, stds, STK_ARG_FLOATS, "[1.0, 1.0, 1.0, 1.0]", STK_FREE, 0, "Divisors of the offsets; none may be 0."),
	STK_ARG_END,
};

static enum stk_status check_args(const struct box_encoder *a, struct stk_error *err)
{
	if (a->anchors.count < 4 || a->anchors.count % 4)
		return stk__fail(err, STK_INVALID, "anchors have four values each, and %d are given", a->anchors.count);
	if (a->means.count != 4 || a->stds.count != 4)
		return stk__fail(err, STK_INVALID, "means and stds take four values, for x, y, width and height");
	for (int i = 0; i < 4; i++)
		if (a->stds.v[i] == 0)
			return stk__fail(err, STK_INVALID, "offsets are divided by stds, of which number %d is 0", i);
	return STK_OK;
}

static enum stk_status box_encoder_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct box_encoder *a = call->args;
	const struct stk_desc *boxes = &call->in[0].desc, *labels = &call->in[1].desc;
	int64_t n = a->anchors.count / 4;
	call->out[0].desc = (struct stk_desc){STK_FLOAT, 2, {n, 4}, ""};
	call->out[1].desc = (struct stk_desc){STK_INT32, 1, {n}, ""};
	enum stk_status s = check_args(a, err);
	if (s || (s = stk__boxes_check_rows(boxes, err)))
		return s;
	if (labels->dtype != STK_NO_DTYPE && labels->dtype != STK_INT32)
		return stk__fail(err, STK_UNSUPPORTED, "labels must be of int32, not %s; cast them", stk_dtype_name(labels->dtype));
	int64_t n_labels = labels->ndim < 0 ? -1 : stk_desc_elements(labels), wanted = boxes->ndim < 0 ? -1 : boxes->shape[0];
	if (n_labels >= 0 && wanted >= 0 && n_labels != wanted)
		return stk__fail(err, STK_SHAPE, "%lld labels for %lld boxes: give one a box", (long long)n_labels, (long long)wanted);
	return STK_OK;
}

static float iou(const float *a, const float *b)
{
	float w = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), h = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
	float both = w > 0 && h > 0 ? w * h : 0;
	float all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
	return all > 0 ? both / all : 0;
}

/* Sets matched[k] to the index of the box that has the largest IoU with anchor k, if that is above a->criteria, otherwise to -1. Then each box also gets its
 * best anchor, whatever their IoU; if several boxes have the same best anchor, the last box gets it. Of equal IoUs the last one counts, as in DALI: a box
 * inside several anchors of one size has the same IoU with each of them. */
static void match(const struct box_encoder *a, const float *boxes, int64_t n_boxes, int32_t *matched, float *best)
{
	int32_t n = a->anchors.count / 4;
	for (int32_t k = 0; k < n; k++) {
		matched[k] = -1;
		best[k] = 0;
	}
	for (int64_t i = 0; i < n_boxes; i++)
		for (int32_t k = 0; k < n; k++) {
			float of = iou(boxes + 4 * i, a->anchors.v + 4 * (ptrdiff_t)k);
			if (of > a->criteria && of >= best[k]) {
				best[k] = of;
				matched[k] = (int32_t)i;
			}
		}
	for (int64_t i = 0; i < n_boxes; i++) {
		int32_t anchor = 0;
		float most = -1;
		for (int32_t k = 0; k < n; k++) {
			float of = iou(boxes + 4 * i, a->anchors.v + 4 * (ptrdiff_t)k);
			if (of >= most) {
				most = of;
				anchor = k;
			}
		}
		matched[anchor] = (int32_t)i;
	}
}

/* Converts (left, top, right, bottom) to (x, y, width, height), where (x, y) is the centre. */
static void to_centre(const float *box, float out[4])
{
	for (int i = 0; i < 2; i++) {
		out[i] = (box[i] + box[i + 2]) / 2;
		out[i + 2] = box[i + 2] - box[i];
	}
}

static void encode(const struct box_encoder *a, const float *box, const float *anchor, float out[4])
{
	float b[4], m[4];
	to_centre(box, b);
	to_centre(anchor, m);
	for (int i = 0; i < 4; i++) {
		float from = b[i] * a->scale, to = m[i] * a->scale, extent = m[i % 2 + 2] * a->scale;
		float offset = i < 2 ? (from - to) / extent : (float)stk__log((double)(from / to));
		out[i] = a->offset ? (offset - a->means.v[i]) / a->stds.v[i] : b[i];
	}
}

static enum stk_status box_encoder_run(const struct stk_call *call, struct stk_error *err)
{
	const struct box_encoder *a = call->args;
	int32_t n = a->anchors.count / 4, *labels = call->out[1].data;
	int32_t *matched = stk__arena_take(call->tools->arena, (size_t)n * sizeof *matched);
	float *best = stk__arena_take(call->tools->arena, (size_t)n * sizeof *best), *out = call->out[0].data;
	if (!matched || !best)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d anchors", n);
	match(a, call->in[0].data, call->in[0].desc.shape[0], matched, best);
	for (int32_t k = 0; k < n; k++, out += 4) {
		const float *anchor = a->anchors.v + 4 * (ptrdiff_t)k;
		labels[k] = matched[k] < 0 ? 0 : ((const int32_t *)call->in[1].data)[matched[k]];
		if (matched[k] >= 0)
			encode(a, (const float *)call->in[0].data + 4 * (ptrdiff_t)matched[k], anchor, out);
		else if (a->offset)
			memset(out, 0, 4 * sizeof *out);
		else
			to_centre(anchor, out);
	}
	return STK_OK;
}

const struct stk_op_def stk__op_box_encoder = {
	.name = "box_encoder",
	.doc = "Matches boxes with anchors, for the training of SSD.\n\n"
	       "Inputs: boxes, float32 rows of (left, top, right, bottom), and their labels, int32, one a box. Outputs: for each "
	       "anchor a float32 row of (x, y, width, height), where (x, y) is the centre, for the matched box or else for the anchor "
	       "itself; and the box's label, int32, or 0.",
	.inputs = {2, 2},
	.outputs = 2,
	.host_inputs = 3,
	.args = box_encoder_args,
	.args_size = sizeof(struct box_encoder),
	.infer = box_encoder_infer,
	.run_cpu = box_encoder_run,
};
