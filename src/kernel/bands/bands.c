/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs of weighted sums along a dimension, and describes them for the GPU. */
#include "kernel/bands/bands.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

enum stk_status stk__job_bands(struct stk_jobs *jobs, const struct stk_bands *p, const void *table, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job;
	stk__job_begin(&job, STK_JOB_bands, in, out, stk_desc_elements(&out->desc));
	if (job.n == 0)
		return STK_OK;
	STK_PARAMS_SET(stk_bands, &job) = *p;
	job.constants = table;
	job.constant_bytes = sizeof(struct stk_band) * (size_t)p->rows + sizeof(float) * (size_t)p->n_weights;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, 8 * sizeof(float) * (size_t)(p->bins + p->rows));
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for weighted sums");
	if (!stk__jobs_settle(jobs, &job))
		STK_JOB_LOOP(jobs, job.n, stk__bands_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches, to which STK_LAUNCH_bands is added for the index among the launches of all kinds. */
enum { BY_OUTPUT, BY_TILE };
static const struct stk_job_launch launches[] = {
	[BY_OUTPUT] = {"bands_gpu", "job_bands", 0},
	[BY_TILE] = {"bands_gpu", "job_bands_tile", 0},
};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_bands *p = &STK_PARAMS(stk_bands, &it->job);
	const int64_t each = (int64_t)STK_JOB_THREADS * STK_BANDS_EACH, columns = stk__bands_columns(p);
	uint32_t *shared = &b->shared[STK_LAUNCH_bands + BY_TILE], needed = (uint32_t)(columns * p->bins) * (uint32_t)sizeof(float);
	if (columns)
		b->count[STK_LAUNCH_bands + BY_TILE] += (uint32_t)(p->outer * ((p->inner + columns - 1) / columns));
	else
		b->count[STK_LAUNCH_bands + BY_OUTPUT] += (uint32_t)((it->job.n + each - 1) / each);
	*shared = needed > *shared ? needed : *shared;
}

const struct stk_job_kind stk__job_kind_bands = {STK_JOB_LAUNCHES_OF(bands, launches), .blocks = blocks};
