/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs that enhance images, and describes them for the GPU. */
#include "kernel/enhance/enhance.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

enum stk_status stk__job_enhance(struct stk_jobs *jobs, const struct stk_enhance *e, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	bool sharpens = e->n == 1 && e->step[0].kind == STK_ENHANCE_SHARPNESS;
	struct stk_job job = {
		.kind = STK_JOB_enhance,
		.n = e->frames * e->height * e->width * (sharpens ? e->channels : 1),
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
		.work_bytes = (uint64_t)e->frames * sizeof(int32_t),
	};
	STK_PARAMS_SET(stk_enhance, &job) = *e;
	if (job.n == 0 || e->channels == 0)
		return STK_OK;
	if (job.n > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "an image to enhance has at most %d values, not %lld", STK_JOB_MOST, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	STK_JOB_LOOP(jobs, job.n, stk__enhance_run)(e, in->data, out->data);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"enhance_gpu", "job_enhance", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_enhance] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_enhance = {STK_JOB_LAUNCHES_OF(enhance, launches), .claimed_by = STK_JOB_image, .blocks = blocks};
