/* SPDX-License-Identifier: Apache-2.0
 * Makes demosaicing jobs, and describes them for the GPU. */
#include "kernel/debayer/debayer.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

enum stk_status stk__job_debayer(struct stk_jobs *jobs, const struct stk_debayer *b, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job = {.kind = STK_JOB_debayer,
		.n = stk_desc_elements(&in->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in->desc.dtype, in->desc.dtype},
		.dst = out->data,
		.src = {in->data, NULL}};
	STK_PARAMS_SET(stk_debayer, &job) = *b;
	if (job.n == 0)
		return STK_OK;
	if (job.n > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "an image to demosaic has at most %d pixels, not %lld", STK_JOB_MOST, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	STK_JOB_LOOP(jobs, job.n, stk__debayer_run)(b, in->data, out->data, job.n);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"debayer_gpu", "job_debayer", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_debayer] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_debayer = {STK_JOB_LAUNCHES_OF(debayer, launches), .blocks = blocks};
