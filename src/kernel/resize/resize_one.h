/* SPDX-License-Identifier: Apache-2.0
 * Computes one value of a job that resamples a tensor (resize.h), in C and CUDA. */
#ifndef STK_KERNEL_RESIZE_ONE_H
#define STK_KERNEL_RESIZE_ONE_H

#include "kernel/job/job_place.h"
#include "kernel/resize/resize.h"

STK_HD int64_t stk__resize_outputs(const struct stk_resize_phase *p)
{
	return p->outer * p->out * p->inner;
}

/* Returns the address in job->work of the results of phase 0 or 1. The results of the last phase are the output instead. */
STK_HD float *stk__resize_between(const struct stk_job *job, int phase)
{
	float *work = (float *)job->work;
	return phase > 0 ? work + stk__resize_outputs(&STK_PARAMS(stk_job_resize, job).phase[0]) : work;
}

STK_HD void stk__job_resize_one(const struct stk_job *job, int phase, uint32_t i)
{
	const struct stk_resize_phase *p = &STK_PARAMS(stk_job_resize, job).phase[phase];
	uint32_t inner = (uint32_t)p->inner, row = i / inner, at = i - row * inner, outer = row / (uint32_t)p->out,
		 o = row - outer * (uint32_t)p->out;
	const uint32_t *words = (const uint32_t *)job->constants;
	const float *weights = (const float *)(const void *)(words + p->weights) + (int64_t)o * p->taps;
	int64_t from = ((int64_t)outer * p->in + ((const int32_t *)(const void *)(words + p->first))[o]) * p->inner + at;
	float sum = 0;
	for (int32_t t = 0; t < p->taps; t++, from += p->inner) {
		float x;
		if (phase > 0)
			x = stk__resize_between(job, phase - 1)[from];
		else
			x = stk__job_float(job->src[0] + from * stk__job_size(job->src_dtype[0]), job->src_dtype[0]);
		sum = t ? sum + x * weights[t] : x * weights[t];
	}
	if (phase < STK_PARAMS(stk_job_resize, job).phases - 1)
		stk__resize_between(job, phase)[i] = sum;
	else
		stk__convert_one(job->dst + (int64_t)i * stk__job_size(job->dst_dtype), job->dst_dtype, &sum, STK_FLOAT);
}

#endif
