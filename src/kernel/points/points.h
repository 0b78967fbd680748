/* SPDX-License-Identifier: Apache-2.0
 * Affine maps of points. */
#ifndef STK_KERNEL_POINTS_H
#define STK_KERNEL_POINTS_H

#include "kernel/job/job.h"

enum { STK_POINT_COMPONENTS = 6 /* maximum number of components of a point */ };

/* Maps consecutive points of `in` components to points of `out` components. The job's constants are floats: `out` rows of `in` factors, then one number for
 * each row, which is added to the row's sum. Sums are computed in float32, in the order of the factors. */
struct stk_job_points {
	int32_t in, out;
	bool boxes; /* points are pairs of opposite corners of boxes, and become the corners of the boxes around the mapped boxes, the lower one first;
		       out is equal to in */
};
STK_PARAMS_FIT(stk_job_points);

/* Makes a job that maps points p to M p + T, rounded to out's type. A point is p->in consecutive elements of the input, and p->out of the output. matrix: M
 * row by row, then T. */
STK_MUST_USE enum stk_status stk__job_points(struct stk_jobs *jobs, const struct stk_job_points *p, const float *matrix,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

/* Runs a job on the CPU. */
void stk__points_run(const struct stk_job *job);

#endif
