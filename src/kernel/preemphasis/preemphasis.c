/* SPDX-License-Identifier: Apache-2.0
 * Makes pre-emphasis jobs, and describes them for the GPU. */
#include "kernel/preemphasis/preemphasis.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

enum stk_status stk__job_preemphasis(struct stk_jobs *jobs, const struct stk_preemphasis *p, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job;
	stk__job_begin(&job, STK_JOB_preemphasis, in, out, stk_desc_elements(&in->desc));
	if (job.n == 0)
		return STK_OK;
	STK_PARAMS_SET(stk_preemphasis, &job) = *p;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	STK_JOB_LOOP(jobs, job.n, stk__preemphasis_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"preemphasis_gpu", "job_preemphasis", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_preemphasis] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_preemphasis = {STK_JOB_LAUNCHES_OF(preemphasis, launches), .blocks = blocks};
