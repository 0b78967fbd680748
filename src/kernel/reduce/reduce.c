/* SPDX-License-Identifier: Apache-2.0
 * Makes reductions, and describes them for the GPU. */
#include "kernel/reduce/reduce.h"

#include "base/error.h"
#include "base/memory.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/reduce/reduce_blocks.h"
#include "kernel/reduce/reduce_run.h"

#include <assert.h>

static void append_axis(struct stk_job_axis *axes, int32_t *n, uint32_t size, uint64_t stride)
{
	if (*n && (uint64_t)axes[*n - 1].stride == stride * size)
		axes[*n - 1] = (struct stk_job_axis){axes[*n - 1].size * size, (int64_t)stride};
	else if (size != 1)
		axes[(*n)++] = (struct stk_job_axis){size, (int64_t)stride};
}

void stk__job_groups(struct stk_job_groups *g, const struct stk_desc *d, uint32_t reduced)
{
	uint64_t strides[STK_MAX_DIMS], stride = 1; /* strides may wrap around in a tensor without elements, but are not used then */
	g->groups = g->count = 1;
	g->n_kept = g->n_reduced = 0;
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		strides[k] = stride;
		stride *= (uint64_t)d->shape[k];
	}
	assert(stride <= STK_JOB_MOST);
	for (int32_t k = 0; k < d->ndim; k++) {
		uint32_t size = (uint32_t)d->shape[k];
		bool is_reduced = reduced >> k & 1;
		append_axis(is_reduced ? g->reduced : g->kept, is_reduced ? &g->n_reduced : &g->n_kept, size, strides[k]);
		*(is_reduced ? &g->count : &g->groups) *= size;
	}
}

/* Returns the domain (enum stk_arith_domain) in which values of type `from` are added up for a result of type `to`. Integers are added up as integers,
 * except for variances and deviations. Their squares are added up as integers only if the result is an integer, since squares can exceed 64 bits. */
static int32_t reduction_domain(enum stk_reduction op, int32_t from, int32_t to)
{
	bool squares = op == STK_REDUCE_MEAN_SQUARE || op == STK_REDUCE_RMS, about = op == STK_REDUCE_VARIANCE || op == STK_REDUCE_STD_DEV;
	if (!stk__job_is_whole(from) || about || (squares && !stk__job_is_whole(to)))
		return STK_ARITH_DOUBLE;
	return from == STK_INT8 || from == STK_INT16 || from == STK_INT32 || from == STK_INT64 ? STK_ARITH_INT64 : STK_ARITH_UINT64;
}

enum stk_status stk__job_reduce(struct stk_jobs *jobs, enum stk_reduction op, int64_t ddof, const struct stk_tensor *in,
	const struct stk_tensor *mean, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err)
{
	struct stk_job job;
	struct stk_job_reduce *r = &STK_PARAMS_SET(stk_job_reduce, &job);
	stk__job_begin(&job, STK_JOB_reduce, in, out, 0);
	stk__job_groups(&r->groups, &in->desc, reduced);
	job.n = r->groups.groups;
	if (job.n == 0)
		return STK_OK;
	r->op = op;
	r->domain = reduction_domain(op, job.src_dtype[0], job.dst_dtype);
	r->ddof = ddof;
	r->mean_step = 0;
	if (mean) {
		job.src[1] = mean->data;
		job.src_dtype[1] = mean->desc.dtype;
		r->mean_step = stk_desc_elements(&mean->desc) == 1 ? 0 : stk__job_size(mean->desc.dtype);
	}
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take_uncounted(jobs->arena, stk__reduce_scratch());
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a reduction");
	stk__reduce_run(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {
	[STK_REDUCE_ANY] = {"reduce_gpu", "job_reduce", 0},
	[STK_REDUCE_COLUMNS] = {"reduce_bytes_gpu", "job_byte_columns", 0},
	[STK_REDUCE_ROWS] = {"reduce_bytes_gpu", "job_byte_rows", 0},
};

static void memory(const struct stk_job *job, uint64_t *constants, uint64_t *work)
{
	(void)work;
	if (stk__job_is_columns(job))
		*constants = sizeof(struct stk_job_totals);
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_job_groups *g = stk__job_groups_of(&it->job);
	if (stk__job_is_columns(&it->job))
		b->count[STK_LAUNCH_reduce + STK_REDUCE_COLUMNS] += stk__job_column_blocks(g);
	else if (stk__job_is_rows(&it->job))
		b->count[STK_LAUNCH_reduce + STK_REDUCE_ROWS] += stk__job_row_blocks(g);
	else
		b->count[STK_LAUNCH_reduce + STK_REDUCE_ANY] += stk__group_blocks(g);
}

const struct stk_job_kind stk__job_kind_reduce = {STK_JOB_LAUNCHES_OF(reduce, launches), .memory = memory, .blocks = blocks};
