/* SPDX-License-Identifier: Apache-2.0
 * The launches that reduce or measure groups on the GPU, and their thread blocks. */
#ifndef STK_KERNEL_REDUCE_BLOCKS_H
#define STK_KERNEL_REDUCE_BLOCKS_H

#include "kernel/reduce/reduce_bytes.h"

#define STK_REDUCE_GROUPS 2048 /* number of short groups per thread block */

/* Indices of the kind's launches; with STK_LAUNCH_reduce added, indices among all kinds' launches. */
enum { STK_REDUCE_ANY, STK_REDUCE_COLUMNS, STK_REDUCE_ROWS };

/* Returns the number of thread blocks. A short group is reduced by one thread, a long one by a whole thread block. */
static inline uint32_t stk__group_blocks(const struct stk_job_groups *g)
{
	return g->count < STK_JOB_SERIAL ? (g->groups + STK_REDUCE_GROUPS - 1) / STK_REDUCE_GROUPS : g->groups;
}

#endif
