/* SPDX-License-Identifier: Apache-2.0
 * bb_flip: mirrors boxes, as flip mirrors images. */
#include "kernel/points/points.h"
#include "op/geometry/boxes.h"

struct bb_flip {
	int64_t horizontal, vertical;
	bool ltrb;
};

static const struct stk_arg_def bb_flip_args[] = {
	STK_ARG(struct bb_flip, horizontal, STK_ARG_INT, "1", STK_FREE, STK_PER_SAMPLE, "Mirrors left and right; 0: not."),
	STK_ARG(struct bb_flip, vertical, STK_ARG_INT, "0", STK_FREE, STK_PER_SAMPLE, "Mirrors top and bottom; 0: not."),
	STK_ARG(struct bb_flip, ltrb, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Boxes are (left, top, right, bottom); false: (left, top, width, height)."),
	STK_ARG_END,
};

static enum stk_status bb_flip_infer(const struct stk_call *call, struct stk_error *err)
{
	call->out[0].desc = call->in[0].desc;
	return stk__boxes_check(&call->in[0].desc, err);
}

static enum stk_status bb_flip_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct bb_flip *a = call->args;
	const int64_t mirrored[2] = {a->horizontal, a->vertical};
	float m[4][4] = {{0}}, matrix[20] = {0};
	for (int axis = 0; axis < 2; axis++) {
		/* indices of the box's two values for this axis: `low` of its first edge, `high` of its other edge or, without ltrb, of its extent */
		int low = axis, high = axis + 2;
		if (!mirrored[axis]) {
			m[low][low] = m[high][high] = 1;
		} else if (a->ltrb) {
			m[low][high] = m[high][low] = -1;
			matrix[16 + low] = matrix[16 + high] = 1;
		} else {
			m[low][low] = m[low][high] = -1;
			m[high][high] = 1;
			matrix[16 + low] = 1;
		}
	}
	for (int i = 0; i < 16; i++)
		matrix[i] = m[i / 4][i % 4];
	return stk__job_points(jobs, &(struct stk_job_points){4, 4, false}, matrix, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_bb_flip = {
	.name = "bb_flip",
	.doc = "Mirrors boxes in the same way as flip mirrors their image.\n\n"
	       "Boxes are float32 and relative to the image, whose extents are 1. The input has four values a box, one box after the "
	       "other, in any number of dims; so has the output.",
	.inputs = {1, 1},
	.args = bb_flip_args,
	.args_size = sizeof(struct bb_flip),
	.infer = bb_flip_infer,
	.lower_jobs = bb_flip_lower_jobs,
};
