/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs that convert to decibels, and describes them for the GPU. */
#include "kernel/decibels/decibels.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

enum stk_status stk__job_decibels(struct stk_jobs *jobs, const struct stk_decibels *p, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job;
	stk__job_begin(&job, STK_JOB_decibels, in, out, stk_desc_elements(&in->desc));
	if (job.n == 0)
		return STK_OK;
	STK_PARAMS_SET(stk_decibels, &job) = *p;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	STK_JOB_LOOP(jobs, job.n, stk__decibels_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_decibels added, indices among all kinds' launches. LARGEST finds the largest value of each tensor whose
 * reference is that value, OUTPUTS makes the outputs. */
enum { LARGEST, OUTPUTS };
static const struct stk_job_launch launches[] = {
	[LARGEST] = {"decibels_gpu", "job_decibels_largest", 0},
	[OUTPUTS] = {"decibels_gpu", "job_decibels", 0},
};

/* Sets the sizes in bytes of a job's memory on the GPU. If the reference is the tensor's largest value, the constants are one word of zeros, in which the
 * launch LARGEST stores that value. */
static void memory(const struct stk_job *job, uint64_t *constants, uint64_t *work)
{
	*constants = STK_PARAMS(stk_decibels, job).reference == 0 ? sizeof(uint32_t) : 0;
	*work = 0;
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	uint32_t count = stk__job_blocks_of(it->job.n);
	b->count[STK_LAUNCH_decibels + LARGEST] += STK_PARAMS(stk_decibels, &it->job).reference == 0 ? count : 0;
	b->count[STK_LAUNCH_decibels + OUTPUTS] += count;
}

const struct stk_job_kind stk__job_kind_decibels = {STK_JOB_LAUNCHES_OF(decibels, launches), .memory = memory, .blocks = blocks};
