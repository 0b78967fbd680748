/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-emphasis of a signal: y[i] = x[i] - coefficient * x[i - 1], in float32, or in double for float64 signals. Elements are numbered in the order of
 * memory. */
#ifndef STK_KERNEL_PREEMPHASIS_H
#define STK_KERNEL_PREEMPHASIS_H

#include "kernel/job/job_place.h"

/* The value used for x[-1]. */
enum stk_preemphasis_border {
	STK_PREEMPHASIS_ZERO,   /* 0 */
	STK_PREEMPHASIS_CLAMP,  /* x[0] */
	STK_PREEMPHASIS_REFLECT /* x[1]; 0 for a signal of one element */
};

struct stk_preemphasis {
	float coefficient;
	int32_t border;
};
STK_PARAMS_FIT(stk_preemphasis);

/* Returns element i of the signal, rounded to float32 unless its type is float64. */
STK_HD double stk__preemphasis_load(const struct stk_job *job, int64_t i)
{
	const uint8_t *at = job->src[0] + i * stk__job_size(job->src_dtype[0]);
	return job->src_dtype[0] == STK_FLOAT64 ? *(const double *)(const void *)at : (double)stk__job_float(at, job->src_dtype[0]);
}

/* Computes output i of the job, in C and CUDA. */
STK_HD void stk__preemphasis_one(const struct stk_job *job, uint32_t i)
{
	const struct stk_preemphasis *p = &STK_PARAMS(stk_preemphasis, job);
	int64_t before = i > 0 ? (int64_t)i - 1 : p->border == STK_PREEMPHASIS_REFLECT;
	bool zero = before >= job->n || (i == 0 && p->border == STK_PREEMPHASIS_ZERO);
	double x = stk__preemphasis_load(job, i), last = zero ? 0 : stk__preemphasis_load(job, before);
	if (job->src_dtype[0] == STK_FLOAT64)
		x -= (double)p->coefficient * last;
	else
		x = (double)((float)x - p->coefficient * (float)last);
	stk__convert_one(job->dst + (int64_t)i * stk__job_size(job->dst_dtype), job->dst_dtype, &x, STK_FLOAT64);
}

/* Makes a job that filters `in`. in and out have the same number of elements. */
STK_MUST_USE enum stk_status stk__job_preemphasis(struct stk_jobs *jobs, const struct stk_preemphasis *p, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);

/* Run a job on the CPU. _avx2: the same source, compiled for AVX2. */
void stk__preemphasis_run(const struct stk_job *job);
void stk__preemphasis_run_avx2(const struct stk_job *job);

#endif
