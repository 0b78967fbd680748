/* SPDX-License-Identifier: Apache-2.0
 * Runs one-hot jobs on the CPU. */
#include "kernel/one_hot/one_hot_run.h"
#include "kernel/convert/convert.h"
#include "kernel/job/job_cpu.h"
#include "kernel/one_hot/one_hot.h"

#include <string.h>

#define SET_ON(type)                                                                                                                       \
	for (int64_t i = 0; i < n; i++, dst += step)                                                                                       \
		if (values[i] > -1 && values[i] < limit)                                                                                   \
			memcpy(dst + (int64_t)values[i] * job->dim[1].dst, STK_PARAMS(stk_job_one_hot, job).on, sizeof(type));             \
	break

/* For each of the n inputs `values`, sets the element of the input's class to `on`. Inputs are truncated to integers. For inputs outside of 0 .. classes -
 * 1, does nothing. Class 0 of input i is at dst + i * step. */
static void set_on(const struct stk_job *job, uint8_t *dst, int64_t step, const double *values, int64_t n, int32_t size)
{
	double limit = STK_PARAMS(stk_job_one_hot, job).classes;
	switch (size) {
	case 1:
		SET_ON(uint8_t);
	case 2:
		SET_ON(uint16_t);
	case 4:
		SET_ON(uint32_t);
	default:
		SET_ON(uint64_t);
	}
}

void stk__one_hot_run(const struct stk_job *job)
{
	int32_t to = stk__job_size(job->dst_dtype), from = stk__job_size(job->src_dtype[0]);
	const struct stk_job_dim *outer = &job->dim[0], *inner = &job->dim[2];
	const uint8_t *src = job->src[0];
	double values[STK_JOB_BLOCK];
	/* Consecutive inputs are those along the inner dimension, or along the outer one if the inner one has size 1. */
	bool rows = inner->size > 1;
	int64_t lines = rows ? outer->size : 1, length = rows ? inner->size : outer->size, step = rows ? inner->dst : outer->dst;
	stk__job_fill(job->dst, STK_PARAMS(stk_job_one_hot, job).off, job->n, to);
	for (int64_t o = 0; o < lines; o++)
		for (int64_t i = 0, n; i < length; i += n, src += n * from) {
			n = length - i < STK_JOB_BLOCK ? length - i : STK_JOB_BLOCK;
			stk__convert(values, STK_FLOAT64, src, (enum stk_dtype)job->src_dtype[0], n);
			set_on(job, job->dst + o * outer->dst + i * step, step, values, n, to);
		}
}
