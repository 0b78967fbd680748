/* SPDX-License-Identifier: Apache-2.0
 * Makes normalisation jobs, and describes them for the GPU. */
#include "kernel/reduce/normalize.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/reduce/normalize_one.h"
#include "kernel/reduce/reduce_blocks.h"
#include "kernel/reduce/reduce_run.h"

enum stk_status stk__job_normalize(struct stk_jobs *jobs, const struct stk_job_normalize *n, const double *given,
	const struct stk_tensor *in, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err)
{
	struct stk_job job;
	struct stk_job_normalize *normalize = &STK_PARAMS_SET(stk_job_normalize, &job);
	const struct stk_desc *d = &in->desc;
	stk__job_begin(&job, STK_JOB_normalize, in, out, stk_desc_elements(d));
	if (job.n == 0)
		return STK_OK;
	*normalize = *n;
	stk__job_groups(&normalize->groups, d, reduced);
	job.constants = given;
	job.constant_bytes = (uint64_t)(n->n_mean + n->n_factor) * sizeof *given;
	job.work_bytes = 2 * sizeof(double) * (uint64_t)normalize->groups.groups;
	int64_t groups[STK_MAX_DIMS], group = 1, stride = job.n;
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		groups[k] = reduced >> k & 1 ? 0 : group;
		group *= reduced >> k & 1 ? 1 : d->shape[k];
	}
	for (int32_t k = 0; k < d->ndim; k++) {
		stride /= d->shape[k];
		stk__job_append_dim(&job, (struct stk_job_dim){d->shape[k], 0, d->shape[k], stride * stk__job_size(job.dst_dtype),
						  {stride * stk__job_size(d->dtype), groups[k] * 2 * (int64_t)sizeof(double)}});
	}
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, job.work_bytes);
	job.src[1] = job.work;
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to measure %u groups", normalize->groups.groups);
	STK_JOB_LOOP(jobs, job.n, stk__normalize_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_normalize added, indices among all kinds' launches. MEASURE measures groups, then ANY or FLAT makes the
 * outputs. */
enum { MEASURE, ANY, FLAT };
static const struct stk_job_launch launches[] = {
	[MEASURE] = {"normalize_gpu", "job_measure", 0},
	[ANY] = {"normalize_gpu", "job_normalize", 0},
	[FLAT] = {"normalize_gpu_flat", "job_normalize_flat", 0},
};

/* Returns whether nothing is measured, since means and factors are given. They are then uploaded as the job's constants, a pair for each group. */
static bool is_given(const struct stk_job *job)
{
	const struct stk_job_normalize *n = &STK_PARAMS(stk_job_normalize, job);
	return n->n_mean && n->n_factor;
}

static void memory(const struct stk_job *job, uint64_t *constants, uint64_t *work)
{
	if (stk__job_is_columns(job))
		*constants = sizeof(struct stk_job_totals);
	if (is_given(job)) {
		*constants = job->work_bytes;
		*work = 0;
	}
}

static void write_constants(struct stk_job *job, const void *host_constants, uint8_t *to)
{
	job->src[1] = is_given(job) ? job->constants : job->work;
	if (!is_given(job)) {
		if (stk__job_is_columns(job))
			memset(to, 0, sizeof(struct stk_job_totals));
		else if (job->constant_bytes)
			memcpy(to, host_constants, job->constant_bytes);
		return;
	}
	struct stk_job host = *job;
	host.constants = host_constants;
	for (uint32_t k = 0; k < STK_PARAMS(stk_job_normalize, job).groups.groups; k++, to += 2 * sizeof(double)) {
		double stats[] = {stk__job_mean(&host, k, 0), stk__job_factor(&host, k, 0)}; /* the pair that a measurement would store */
		memcpy(to, stats, sizeof stats);
	}
}

static int32_t flat(const struct stk_job *job, bool *dense)
{
	*dense = false;
	return stk__in_float(job->src_dtype[0]) && stk__in_float(job->dst_dtype) ? stk__job_size(job->dst_dtype) : 0;
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_job_groups *g = stk__job_groups_of(&it->job);
	if (stk__job_is_columns(&it->job))
		b->count[STK_LAUNCH_reduce + STK_REDUCE_COLUMNS] += stk__job_column_blocks(g);
	else if (!is_given(&it->job))
		b->count[STK_LAUNCH_normalize + MEASURE] += stk__group_blocks(g);
	if (it->flat.pieces)
		b->count[STK_LAUNCH_normalize + FLAT] += stk__job_piece_blocks(it);
	else
		b->count[STK_LAUNCH_normalize + ANY] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_normalize = {
	STK_JOB_LAUNCHES_OF(normalize, launches), .memory = memory, .write_constants = write_constants, .flat = flat, .blocks = blocks};
