/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs that map points, and describes them for the GPU. */
#include "kernel/points/points.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

enum stk_status stk__job_points(struct stk_jobs *jobs, const struct stk_job_points *p, const float *matrix, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job;
	stk__job_begin(&job, STK_JOB_points, in, out, stk_desc_elements(&out->desc));
	if (job.n == 0)
		return STK_OK;
	STK_PARAMS_SET(stk_job_points, &job) = *p;
	job.constants = matrix;
	job.constant_bytes = sizeof *matrix * (uint64_t)p->out * (uint64_t)(p->in + 1);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__points_run(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"points_gpu", "job_points", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_points] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_points = {STK_JOB_LAUNCHES_OF(points, launches), .blocks = blocks};
