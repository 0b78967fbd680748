/* SPDX-License-Identifier: Apache-2.0
 * Jobs that reduce or measure bytes on the GPU. Sums of bytes and of their squares are exact in any order, so many thread blocks share a group, and threads
 * take its elements as they lie.
 *
 *   columns   few groups, whose elements alternate: the channels of an image, or all of a tensor
 *   rows      many groups of a few elements each, which follow each other: the channels of each pixel */
#ifndef STK_KERNEL_ARRAY_BYTES_H
#define STK_KERNEL_ARRAY_BYTES_H

#include "kernel/array/array_element.h"

enum {
	STK_ARRAY_COLUMNS = 12,                 /* at most; the number of columns divides it */
	STK_ARRAY_COLUMNS_CHUNK = 16,           /* bytes of a load */
	STK_ARRAY_COLUMNS_CHUNKS = 3 * 8 * 256, /* of a thread block */
	STK_ARRAY_ROW = 4,                      /* elements of a row, at most */
	STK_ARRAY_ROWS = 16 * 256,              /* of a thread block */
};

/* What the thread blocks of a job's columns add up, zero at first. Of extremes it is the greatest, and the least is the greatest of all complements. */
struct stk_array_totals {
	unsigned long long sum[STK_ARRAY_COLUMNS], squares[STK_ARRAY_COLUMNS];
	uint32_t arrived; /* thread blocks that are through */
};

STK_HD bool stk__array_bytes_serve(const struct stk_array_job *job)
{
	if (job->src_dtype[0] != STK_UINT8)
		return false;
	if (job->kind == STK_ARRAY_REDUCE)
		return job->reduce.op != STK_REDUCE_VARIANCE && job->reduce.op != STK_REDUCE_STD_DEV;
	return job->kind == STK_ARRAY_NORMALIZE && !job->normalize.n_mean && !job->normalize.n_factor;
}

STK_HD const struct stk_array_groups *stk__array_groups_of(const struct stk_array_job *job)
{
	return job->kind == STK_ARRAY_REDUCE ? &job->reduce.groups : &job->normalize.groups;
}

STK_HD bool stk__array_is_columns(const struct stk_array_job *job)
{
	if (!stk__array_bytes_serve(job))
		return false;
	const struct stk_array_groups *g = stk__array_groups_of(job);
	return g->count >= STK_ARRAY_SERIAL && g->groups <= STK_ARRAY_COLUMNS && STK_ARRAY_COLUMNS % g->groups == 0 && g->n_reduced == 1 &&
	       g->reduced[0].stride == g->groups && (g->n_kept == 0 || (g->n_kept == 1 && g->kept[0].stride == 1));
}

STK_HD bool stk__array_is_rows(const struct stk_array_job *job)
{
	if (!stk__array_bytes_serve(job) || job->kind != STK_ARRAY_REDUCE)
		return false;
	const struct stk_array_groups *g = &job->reduce.groups;
	return g->count > 1 && g->count <= STK_ARRAY_ROW && g->n_reduced == 1 && g->reduced[0].stride == 1 && g->n_kept == 1 &&
	       g->kept[0].stride == g->count;
}

/* Thread blocks of a job that is columns, or rows. */
STK_HD uint32_t stk__array_column_blocks(const struct stk_array_groups *g)
{
	const uint32_t bytes = STK_ARRAY_COLUMNS_CHUNK * STK_ARRAY_COLUMNS_CHUNKS;
	return (uint32_t)(((uint64_t)g->groups * g->count + bytes - 1) / bytes);
}

STK_HD uint32_t stk__array_row_blocks(const struct stk_array_groups *g)
{
	return (g->groups + STK_ARRAY_ROWS - 1) / STK_ARRAY_ROWS;
}

#endif
