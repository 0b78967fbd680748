/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that reduce or measure bytes on the GPU. Sums of bytes and of their squares are exact in any order, so several thread blocks can share a group, and
 * threads process its elements in the order of memory. There are two forms:
 *
 *   columns   few groups, whose elements alternate: the channels of an image, or a single group
 *   rows      many groups of a few adjacent elements: the channels of each pixel */
#ifndef STK_KERNEL_REDUCE_BYTES_H
#define STK_KERNEL_REDUCE_BYTES_H

#include "kernel/job/job_kinds.h"
#include "kernel/reduce/normalize.h"
#include "kernel/reduce/reduce_one.h"

enum {
	STK_JOB_COLUMNS = 12,                 /* maximum number of columns; the actual number must divide it */
	STK_JOB_COLUMNS_CHUNK = 16,           /* number of bytes in a chunk, which one load reads */
	STK_JOB_COLUMNS_CHUNKS = 3 * 8 * 256, /* number of chunks that a thread block processes */
	STK_JOB_ROW = 4,                      /* maximum number of elements in a row */
	STK_JOB_ROWS = 16 * 256,              /* number of rows that a thread block processes */
};

/* The sums over all thread blocks of a job with columns; they begin at 0. For a maximum or minimum, `sum` is the maximum; the minimum is computed as the
 * maximum of the complements. */
struct stk_job_totals {
	unsigned long long sum[STK_JOB_COLUMNS], squares[STK_JOB_COLUMNS];
	uint32_t arrived; /* number of thread blocks that have finished */
};

/* Returns whether a reduction or normalisation can be computed from integer sums of its bytes, or from their minimum or maximum. */
STK_HD bool stk__job_bytes_serve(const struct stk_job *job)
{
	if (job->src_dtype[0] != STK_UINT8)
		return false;
	if (job->kind == STK_JOB_reduce)
		return STK_PARAMS(stk_job_reduce, job).op != STK_REDUCE_VARIANCE &&
		       STK_PARAMS(stk_job_reduce, job).op != STK_REDUCE_STD_DEV;
	return !STK_PARAMS(stk_job_normalize, job).n_mean && !STK_PARAMS(stk_job_normalize, job).n_factor;
}

STK_HD const struct stk_job_groups *stk__job_groups_of(const struct stk_job *job)
{
	return job->kind == STK_JOB_reduce ? &STK_PARAMS(stk_job_reduce, job).groups : &STK_PARAMS(stk_job_normalize, job).groups;
}

STK_HD bool stk__job_is_columns(const struct stk_job *job)
{
	if (!stk__job_bytes_serve(job))
		return false;
	const struct stk_job_groups *g = stk__job_groups_of(job);
	return g->count >= STK_JOB_SERIAL && g->groups <= STK_JOB_COLUMNS && STK_JOB_COLUMNS % g->groups == 0 && g->n_reduced == 1 &&
	       g->reduced[0].stride == g->groups && (g->n_kept == 0 || (g->n_kept == 1 && g->kept[0].stride == 1));
}

STK_HD bool stk__job_is_rows(const struct stk_job *job)
{
	if (!stk__job_bytes_serve(job))
		return false;
	const struct stk_job_groups *g = &STK_PARAMS(stk_job_reduce, job).groups;
	return g->count > 1 && g->count <= STK_JOB_ROW && g->n_reduced == 1 && g->reduced[0].stride == 1 && g->n_kept == 1 &&
	       g->kept[0].stride == g->count;
}

/* Return the number of thread blocks of a job with columns, or with rows. */
STK_HD uint32_t stk__job_column_blocks(const struct stk_job_groups *g)
{
	const uint32_t bytes = STK_JOB_COLUMNS_CHUNK * STK_JOB_COLUMNS_CHUNKS;
	return (uint32_t)(((uint64_t)g->groups * g->count + bytes - 1) / bytes);
}

STK_HD uint32_t stk__job_row_blocks(const struct stk_job_groups *g)
{
	return (g->groups + STK_JOB_ROWS - 1) / STK_JOB_ROWS;
}

#endif
