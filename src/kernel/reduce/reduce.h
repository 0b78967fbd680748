/* SPDX-License-Identifier: Apache-2.0
 * Groups of elements of a tensor, and reductions of each group to one output. */
#ifndef STK_KERNEL_REDUCE_H
#define STK_KERNEL_REDUCE_H

#include "kernel/arithmetic/arithmetic_op.h"
#include "kernel/job/job.h"

/* The dims that are reduced, and those that are kept, whose indices in order number the groups. Strides in elements. The order of sums is fixed. A
 * group's elements are numbered in the order of memory; fewer than STK_JOB_SERIAL are added one after the other, more as STK_JOB_PARTIAL_SUMS
 * partial sums, element k in sum k % PARTIAL_SUMS, and those pairwise: those PARTIAL_SUMS/2 apart, then PARTIAL_SUMS/4, ... */
#define STK_JOB_PARTIAL_SUMS 256
#define STK_JOB_SERIAL 1024
struct stk_job_axis {
	uint32_t size;
	int64_t stride;
};
struct stk_job_groups {
	uint32_t groups, count; /* count: elements of a group */
	int32_t n_kept, n_reduced;
	struct stk_job_axis kept[STK_MAX_DIMS], reduced[STK_MAX_DIMS];
};

enum stk_reduction {
	STK_REDUCE_SUM,
	STK_REDUCE_MEAN,
	STK_REDUCE_MEAN_SQUARE,
	STK_REDUCE_RMS,
	STK_REDUCE_VARIANCE, /* about means that are given: source 1, a float or double for all groups or one for each */
	STK_REDUCE_STD_DEV,
	STK_REDUCE_MIN, /* skips NaNs. Of no elements: the type's largest number, for MAX its lowest */
	STK_REDUCE_MAX,
};

/* Reduces each group of elements to one output. Meanwhile values are held in `domain` (arithmetic.h): sums of whole numbers are exact, or wrap
 * around in the output's type if that is whole; sums in double have the order above. */
struct stk_job_reduce {
	int32_t op, domain;
	int32_t mean_step; /* bytes from one group's mean to the next; 0: they share one */
	int64_t ddof;      /* subtracted from the number of elements by VARIANCE and STD_DEV */
	struct stk_job_groups groups;
};
STK_PARAMS_FIT(stk_job_reduce);

/* out: an element for each group, dense; groups follow from in and the bits of `reduced`, one a dim. mean: NULL, or of one element or as many as there are
 * groups. in has at most STK_JOB_MOST elements. */
STK_MUST_USE enum stk_status stk__job_reduce(struct stk_jobs *jobs, enum stk_reduction op, int64_t ddof, const struct stk_tensor *in,
	const struct stk_tensor *mean, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err);

/* reduced: a bit for each dim that is. Of at most STK_JOB_MOST elements. */
void stk__job_groups(struct stk_job_groups *g, const struct stk_desc *desc, uint32_t reduced);

/* Adds to each group's sum its values, or with `about` the squares of their distances from about[group]. Any thread. */
void stk__job_sums(const struct stk_job_groups *g, const struct stk_tensor *in, const double *about, double *sums);

#endif
