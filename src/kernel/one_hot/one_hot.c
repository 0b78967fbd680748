/* SPDX-License-Identifier: Apache-2.0
 * Makes one-hot jobs, and describes them for the GPU. */
#include "kernel/one_hot/one_hot.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/one_hot/one_hot_run.h"

enum stk_status stk__job_one_hot(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, int32_t axis, float on,
	float off, struct stk_error *err)
{
	struct stk_job job;
	struct stk_job_one_hot *hot = &STK_PARAMS_SET(stk_job_one_hot, &job);
	const struct stk_desc *d = &out->desc;
	int64_t outer = 1, inner = 1, to = stk__job_size(d->dtype), from = stk__job_size(in->desc.dtype), classes = d->shape[axis];
	for (int32_t k = 0; k < d->ndim; k++)
		*(k < axis ? &outer : &inner) *= k == axis ? 1 : d->shape[k];
	stk__job_begin(&job, STK_JOB_one_hot, in, out, outer * classes * inner);
	if (job.n == 0)
		return STK_OK;
	job.ndim = 3;
	job.dim[0] = (struct stk_job_dim){outer, 0, outer, classes * inner * to, {inner * from, 0}};
	job.dim[1] = (struct stk_job_dim){classes, 0, classes, inner * to, {0, 0}};
	job.dim[2] = (struct stk_job_dim){inner, 0, inner, to, {from, 0}};
	hot->classes = (uint32_t)classes;
	hot->inner = (uint32_t)inner;
	stk__convert_one(hot->on, d->dtype, &on, STK_FLOAT);
	stk__convert_one(hot->off, d->dtype, &off, STK_FLOAT);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	STK_JOB_LOOP(jobs, job.n, stk__one_hot_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"one_hot_gpu", "job_one_hot", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_one_hot] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_one_hot = {STK_JOB_LAUNCHES_OF(one_hot, launches), .blocks = blocks};
