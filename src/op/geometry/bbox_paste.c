/* SPDX-License-Identifier: Apache-2.0
 * bbox_paste: moves boxes with an image that paste puts on a canvas. */
#include "kernel/points/points.h"
#include "op/geometry/boxes.h"

struct bbox_paste {
	float ratio, paste_x, paste_y;
	bool ltrb;
};

static const struct stk_arg_def bbox_paste_args[] = {
	STK_ARG(struct bbox_paste, ratio, STK_ARG_FLOAT, NULL, STK_FREE, STK_PER_SAMPLE | STK_REQUIRED,
		"Extents of the canvas as multiples of the image's, as in paste; not 0."),
	STK_ARG(struct bbox_paste, paste_x, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE, "Place of the image along x, as in paste."),
	STK_ARG(struct bbox_paste, paste_y, STK_ARG_FLOAT, "0.5", (0, 1), STK_PER_SAMPLE, "Place of the image along y, as in paste."),
	STK_ARG(struct bbox_paste, ltrb, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Boxes are (left, top, right, bottom); false: (left, top, width, height)."),
	STK_ARG_END,
};

static enum stk_status bbox_paste_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct bbox_paste *a = call->args;
	call->out[0].desc = call->in[0].desc;
	if (!stk__varies(call, &a->ratio) && a->ratio == 0)
		return stk__fail(err, STK_INVALID, "ratio is %g; give the value that paste gets, 1 or more", (double)a->ratio);
	return stk__boxes_check(&call->in[0].desc, err);
}

static enum stk_status bbox_paste_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct bbox_paste *a = call->args;
	float matrix[20] = {0}, scale = 1 / a->ratio, x = a->paste_x * (a->ratio - 1) * scale, y = a->paste_y * (a->ratio - 1) * scale;
	const float moved[4] = {x, y, a->ltrb ? x : 0, a->ltrb ? y : 0};
	for (int i = 0; i < 4; i++) {
		matrix[5 * i] = scale;
		matrix[16 + i] = moved[i];
	}
	return stk__job_points(jobs, &(struct stk_job_points){4, 4, false}, matrix, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_bbox_paste = {
	.name = "bbox_paste",
	.doc = "Moves boxes in the same way as paste moves their image.\n\n"
	       "Boxes are float32 and relative to the image, then to the canvas, whose extents are 1. The input has four values a box, "
	       "one box after the other, in any number of dims; so has the output. x becomes x / ratio + paste_x (ratio - 1) / ratio.",
	.inputs = {1, 1},
	.args = bbox_paste_args,
	.args_size = sizeof(struct bbox_paste),
	.infer = bbox_paste_infer,
	.lower_jobs = bbox_paste_lower_jobs,
};
