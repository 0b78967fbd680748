/* SPDX-License-Identifier: Apache-2.0
 * Makes one output of a job that maps points, in C and CUDA. */
#ifndef STK_KERNEL_POINTS_ONE_H
#define STK_KERNEL_POINTS_ONE_H

#include "kernel/job/job_place.h"
#include "kernel/points/points.h"

/* Returns component `row` of mapped point number `point`. */
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

/* Returns component `row` of corner number `corner` of a mapped box: the smallest one of all corners that the box's 2^in corners are mapped to, or the largest
 * one if `corner` is odd. In each product the coordinate that makes it smallest (or largest) is chosen. Rounded sums grow with their terms, so this is exactly
 * the result for the corner that has these coordinates. */
STK_HD float stk__job_box(const struct stk_job *job, uint32_t corner, uint32_t row)
{
	const struct stk_job_points *p = &STK_PARAMS(stk_job_points, job);
	const float *factors = (const float *)job->constants + row * (uint32_t)p->in;
	int32_t size = stk__job_size(job->src_dtype[0]);
	const uint8_t *src = job->src[0] + (int64_t)(corner & ~1u) * p->in * size;
	float sum = 0;
	for (int32_t k = 0; k < p->in; k++, src += size) {
		float a, b;
		stk__convert_one(&a, STK_FLOAT, src, job->src_dtype[0]);
		stk__convert_one(&b, STK_FLOAT, src + (int64_t)p->in * size, job->src_dtype[0]);
		a *= factors[k];
		b *= factors[k];
		float term = corner & 1 ? (a > b ? a : b) : (b < a ? b : a);
		sum = k ? sum + term : term;
	}
	return sum + ((const float *)job->constants)[p->in * p->out + (int32_t)row];
}

STK_HD void stk__job_points_one(const struct stk_job *job, uint32_t i)
{
	const struct stk_job_points *p = &STK_PARAMS(stk_job_points, job);
	uint32_t point = i / (uint32_t)p->out, row = i - point * (uint32_t)p->out;
	float sum = p->boxes ? stk__job_box(job, point, row) : stk__job_point(job, point, row);
	stk__convert_one(job->dst + (int64_t)i * stk__job_size(job->dst_dtype), job->dst_dtype, &sum, STK_FLOAT);
}

#endif
