/* SPDX-License-Identifier: Apache-2.0
 * Groups of elements of a tensor, and reductions of each group to one output. */
#ifndef STK_KERNEL_REDUCE_H
#define STK_KERNEL_REDUCE_H

#include "kernel/arithmetic/arithmetic_op.h"
#include "kernel/job/job.h"

/* A tensor's dimensions, divided into those that are reduced and those that are kept. Each index along the kept dimensions is a group; groups are numbered
 * in order. Strides are in elements.
 *
 * The order of additions is fixed. The elements of a group are numbered in the order of memory. Fewer than STK_JOB_SERIAL elements are added one after the
 * other. Otherwise there are STK_JOB_PARTIAL_SUMS partial sums, and element k is added to sum k % PARTIAL_SUMS. The partial sums are then added pairwise:
 * first those that are PARTIAL_SUMS/2 apart, then those that are PARTIAL_SUMS/4 apart, and so on. */
#define STK_JOB_PARTIAL_SUMS 256
#define STK_JOB_SERIAL 1024
struct stk_job_axis {
	uint32_t size;
	int64_t stride;
};
struct stk_job_groups {
	uint32_t groups, count; /* number of groups, and of elements in each group */
	int32_t n_kept, n_reduced;
	struct stk_job_axis kept[STK_MAX_DIMS], reduced[STK_MAX_DIMS];
};

enum stk_reduction {
	STK_REDUCE_SUM,
	STK_REDUCE_MEAN,
	STK_REDUCE_MEAN_SQUARE,
	STK_REDUCE_RMS,
	STK_REDUCE_VARIANCE, /* from given means, which are source 1: floats or doubles, one for all groups or one for each group */
	STK_REDUCE_STD_DEV,
	STK_REDUCE_MIN, /* skips NaNs; without elements, MIN gives the type's largest number, MAX its lowest */
	STK_REDUCE_MAX,
};

/* Parameters of a reduction of each group of elements to one output. domain: type in which values are reduced (enum stk_arith_domain). Sums of integers are
 * exact, or wrap around if the output's type is an integer; sums of doubles are computed in the order that is described above. */
struct stk_job_reduce {
	int32_t op, domain;
	int32_t mean_step; /* distance in bytes between the means of consecutive groups; 0: all groups have the same mean */
	int64_t ddof;      /* subtracted from the number of elements by VARIANCE and STD_DEV */
	struct stk_job_groups groups;
};
STK_PARAMS_FIT(stk_job_reduce);

/* Makes a reduction job. out: dense, one element for each group. reduced: a mask of the dimensions of `in` that are reduced. mean: for VARIANCE and STD_DEV, a
 * tensor with one element or one for each group; otherwise NULL. `in` must have at most STK_JOB_MOST elements. */
STK_MUST_USE enum stk_status stk__job_reduce(struct stk_jobs *jobs, enum stk_reduction op, int64_t ddof, const struct stk_tensor *in,
	const struct stk_tensor *mean, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err);

/* Computes the groups of a tensor with at most STK_JOB_MOST elements. reduced: a mask of the dimensions that are reduced. */
void stk__job_groups(struct stk_job_groups *g, const struct stk_desc *desc, uint32_t reduced);

/* Adds the values of each group to sums[group] or, if `about` is not NULL, the squares of their distances from about[group]. */
void stk__job_sums(const struct stk_job_groups *g, const struct stk_tensor *in, const double *about, double *sums);

#endif
