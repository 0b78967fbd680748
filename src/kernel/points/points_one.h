/* SPDX-License-Identifier: Apache-2.0
 * Makes one output of a job that maps points, in C and CUDA. */
#ifndef STK_KERNEL_POINTS_ONE_H
#define STK_KERNEL_POINTS_ONE_H

#include "kernel/job/job_place.h"
#include "kernel/points/points.h"

/* Returns component `row` of mapped point number `point`. Corners of boxes are not ordered yet. */
STK_HD float stk__job_point(const struct stk_job *job, uint32_t point, uint32_t row)
{
	const struct stk_job_points *p = &STK_PARAMS(stk_job_points, job);
	const float *factors = (const float *)job->constants + row * (uint32_t)p->in;
	int32_t size = stk__job_size(job->src_dtype[0]);
	const uint8_t *src = job->src[0] + (int64_t)point * p->in * size;
	float sum = 0;
	for (int32_t k = 0; k < p->in; k++, src += size) {
		float x;
		stk__convert_one(&x, STK_FLOAT, src, job->src_dtype[0]);
		sum = k ? sum + x * factors[k] : x * factors[k];
	}
	return sum + ((const float *)job->constants)[p->in * p->out + (int32_t)row];
}

STK_HD void stk__job_points_one(const struct stk_job *job, uint32_t i)
{
	const struct stk_job_points *p = &STK_PARAMS(stk_job_points, job);
	uint32_t point = i / (uint32_t)p->out, row = i - point * (uint32_t)p->out;
	float sum = stk__job_point(job, point, row);
	if (p->boxes) {
		float other = stk__job_point(job, point ^ 1, row);
		sum = (point & 1 ? other > sum : other < sum) ? other : sum;
	}
	stk__convert_one(job->dst + (int64_t)i * stk__job_size(job->dst_dtype), job->dst_dtype, &sum, STK_FLOAT);
}

#endif
