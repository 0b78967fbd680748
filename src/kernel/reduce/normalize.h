/* SPDX-License-Identifier: Apache-2.0
 * Normalises groups of elements by their mean and standard deviation, which are given or measured. */
#ifndef STK_KERNEL_NORMALIZE_H
#define STK_KERNEL_NORMALIZE_H

#include "kernel/reduce/reduce.h"

/* Computes (x - mean) * factor + shift, in double. factor is scale / sqrt(variance + epsilon), or 0 if variance + epsilon is 0. Groups of bytes are measured by
 * exact sums of values and of squares (stk__job_spread). The job's constants are n_mean means, followed by n_factor factors. n_mean and n_factor are each 1,
 * or the number of groups, or 0 if the mean or the factor is measured. Source 1 of the job is the pair of mean and factor for each output, in the job's work
 * memory, or on the GPU in its constants if nothing is measured. */
struct stk_job_normalize {
	int32_t n_mean, n_factor;
	int64_t ddof;
	double epsilon, scale, shift;
	struct stk_job_groups groups;
};
STK_PARAMS_FIT(stk_job_normalize);

/* Makes a normalisation job. n: all parameters except the groups. reduced: a mask of the dimensions of `in` over which groups extend. given: n_mean means, then
 * n_factor factors. `in` must have at most STK_JOB_MOST elements. */
STK_MUST_USE enum stk_status stk__job_normalize(struct stk_jobs *jobs, const struct stk_job_normalize *n, const double *given,
	const struct stk_tensor *in, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err);

#endif
