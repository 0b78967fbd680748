/* SPDX-License-Identifier: Apache-2.0
 * Computes the mean and the factor of a group from its sums, and single outputs of a normalisation, in C and CUDA. */
#ifndef STK_KERNEL_NORMALIZE_ONE_H
#define STK_KERNEL_NORMALIZE_ONE_H

#include "kernel/reduce/normalize.h"
#include "kernel/reduce/reduce_one.h"

STK_HD double stk__job_mean(const struct stk_job *job, uint32_t group, double sum)
{
	const struct stk_job_normalize *n = &STK_PARAMS(stk_job_normalize, job);
	return n->n_mean ? ((const double *)job->constants)[n->n_mean == 1 ? 0 : group] : sum / (double)n->groups.count;
}

/* Returns whether a group is measured by its sum and the sum of its squares. For bytes these are exact, so the order of summation does not matter. */
STK_HD bool stk__job_measures_exactly(const struct stk_job *job)
{
	return job->src_dtype[0] == STK_UINT8 && !STK_PARAMS(stk_job_normalize, job).n_mean;
}

/* Returns the sum of the squared distances of `count` integers from their mean, computed from their sum and the sum of their squares: first about the
 * integer part of the mean, in integers, then corrected for the fraction of the mean. */
STK_HD double stk__job_spread(uint32_t count, double sum, double squares)
{
	uint64_t s = (uint64_t)sum, whole = s / count, rest = s - whole * count;
	uint64_t about = (uint64_t)squares - 2 * whole * s + whole * whole * count;
	return (double)about - (double)rest * ((double)rest / (double)count);
}

STK_HD double stk__job_factor(const struct stk_job *job, uint32_t group, double squares)
{
	const struct stk_job_normalize *n = &STK_PARAMS(stk_job_normalize, job);
	if (n->n_factor)
		return ((const double *)job->constants)[n->n_mean + (n->n_factor == 1 ? 0 : (int32_t)group)];
	int64_t count = (int64_t)n->groups.count - n->ddof;
	double variance = (count > 0 ? squares / (double)count : 0) + n->epsilon;
	return variance > 0 ? n->scale / sqrt(variance) : 0;
}

STK_HD void stk__job_normalize_one(const struct stk_job *job, const struct stk_job_place *p)
{
	const double *stats = (const double *)(const void *)p->src[1];
	float y = (float)(((double)stk__job_float(p->src[0], job->src_dtype[0]) - stats[0]) * stats[1] +
			  STK_PARAMS(stk_job_normalize, job).shift);
	stk__convert_one(p->dst, job->dst_dtype, &y, STK_FLOAT);
}

#endif
