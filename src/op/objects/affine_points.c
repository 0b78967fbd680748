/* SPDX-License-Identifier: Apache-2.0
 * affine_points: transforms points, and boxes as pairs of points, by each sample's own transform. */
#include "kernel/points/points.h"
#include "op/geometry/affine.h"
#include "op/objects/objects.h"

struct affine_points {
	bool linear, boxes;
};

static const struct stk_arg_def affine_points_args[] = {
	STK_ARG(struct affine_points, linear, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Leaves out the transform's translation, for velocities and other differences of points."),
	STK_ARG(struct affine_points, boxes, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Points come in pairs, two opposite corners of a box each. A pair of the output holds the two corners of the smallest "
		"upright box around all corners of the mapped box. Of its coordinates the smaller one comes first."),
	STK_ARG_END,
};

static enum stk_status affine_points_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *m = &call->in[1].desc;
	enum stk_status s = stk__affine_check(m, err);
	if (s)
		return s;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "points are float32, not %s; cast them", stk_dtype_name(in->dtype));
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "a single number is not a point");
	int64_t k = m->ndim == 2 ? m->shape[0] : -1, row = in->ndim > 0 ? in->shape[in->ndim - 1] : -1;
	if (((const struct affine_points *)call->args)->boxes && k > 0 && row >= 0 && row % (2 * k))
		return stk__fail(err, STK_SHAPE,
			"a row of %lld values does not hold boxes of two points with the %lld components that the transform takes",
			(long long)row, (long long)k);
	if (k > 0 && row >= 0 && row % k)
		return stk__fail(err, STK_SHAPE,
			"a row of %lld values does not hold points with the %lld components that the transform takes", (long long)row,
			(long long)k);
	return STK_OK;
}

static enum stk_status affine_points_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct affine_points *a = call->args;
	const float *m = call->in[1].data;
	int32_t k = (int32_t)call->in[1].desc.shape[0];
	float matrix[STK_POINT_COMPONENTS * (STK_POINT_COMPONENTS + 1)] = {0}; /* the k x k linear part by rows, then the translation */
	for (int32_t r = 0; r < k; r++) {
		for (int32_t c = 0; c < k; c++)
			matrix[r * k + c] = m[r * (k + 1) + c];
		matrix[k * k + r] = a->linear ? 0 : m[r * (k + 1) + k];
	}
	return stk__job_points(jobs, &(struct stk_job_points){k, k, a->boxes}, matrix, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_affine_points = {
	.name = "affine_points",
	.doc = "Maps points by an affine transform, which is the second input.\n\n"
	       "The transform is a matrix of k rows and k + 1 columns, as transforms.*, affine_augmentation and bev_augmentation make "
	       "it. Points are float32. A row of the first input, along its last dim, is one point of k components or several points "
	       "one after the other: (left, top, right, bottom) are two points of an image.",
	.inputs = {2, 2},
	.host_inputs = 2,
	.args = affine_points_args,
	.args_size = sizeof(struct affine_points),
	.infer = affine_points_infer,
	.lower_jobs = affine_points_lower_jobs,
};
