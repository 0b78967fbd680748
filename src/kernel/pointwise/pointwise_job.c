/* SPDX-License-Identifier: Apache-2.0
 * Makes pointwise jobs, and describes them for the GPU. */
#include "kernel/pointwise/pointwise.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/pointwise/pointwise_element.h"
#include "kernel/pointwise/pointwise_lookup.h"

enum stk_status stk__job_pointwise(struct stk_jobs *jobs, const struct stk_pointwise *p, const void *constants, size_t bytes,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job = {
		.kind = STK_JOB_pointwise,
		.n = stk_desc_elements(&out->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in->desc.dtype, in->desc.dtype},
		.dst = out->data,
		.src = {in->data, NULL},
		.constants = constants,
		.constant_bytes = bytes,
	};
	STK_PARAMS_SET(stk_pointwise, &job) = *p;
	if (job.n == 0)
		return STK_OK;
	if (job.n > UINT32_MAX)
		return stk__fail(err, STK_LIMIT, "this operator takes tensors of up to %u values, not %lld", UINT32_MAX, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	struct stk_pointwise_data data = stk__job_pointwise_data(&job);
	STK_JOB_LOOP(jobs, job.n, stk__pointwise_run)(p, &data);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_pointwise added, indices among all kinds' launches. */
enum { ANY, LOOKUP, MASK, NOISE, POISSON };
static const struct stk_job_launch launches[] = {
	[ANY] = {"pointwise_gpu", "job_pointwise", 0},
	[LOOKUP] = {"pointwise_gpu_lookup", "job_lookup", 0},
	[MASK] = {"pointwise_gpu_mask", "job_mask", 0},
	[NOISE] = {"pointwise_gpu_noise", "job_noise", 0},
	[POISSON] = {"pointwise_gpu_noise", "job_noise_poisson", 0},
};

static int32_t flat(const struct stk_job *job, bool *dense)
{
	int32_t op = STK_PARAMS(stk_pointwise, job).op;
	*dense = false;
	return op == STK_POINTWISE_ERASE || op == STK_POINTWISE_GRID ? stk__job_size(job->dst_dtype) : 0;
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_job *job = &it->job;
	const struct stk_pointwise *p = &STK_PARAMS(stk_pointwise, job);
	uint32_t *count = b->count + STK_LAUNCH_pointwise;
	if (p->op == STK_POINTWISE_LOOKUP && job->src_dtype[0] == STK_UINT8)
		count[LOOKUP] += (uint32_t)((job->n + STK_LOOKUP_KEYS - 1) / STK_LOOKUP_KEYS);
	else if (p->op == STK_POINTWISE_NORMAL)
		count[NOISE] += stk__job_blocks_of(job->n);
	else if (p->op == STK_POINTWISE_SALT)
		count[NOISE] += stk__job_blocks_of(job->n / p->noise.channels); /* number of pixels */
	else if (p->op == STK_POINTWISE_POISSON)
		count[POISSON] += stk__job_blocks_of(job->n);
	else if (it->flat.pieces)
		count[MASK] += stk__job_piece_blocks(it);
	else
		count[ANY] += stk__job_blocks_of(job->n);
}

const struct stk_job_kind stk__job_kind_pointwise = {
	STK_JOB_LAUNCHES_OF(pointwise, launches), .claimed_by = STK_JOB_image, .flat = flat, .blocks = blocks};
