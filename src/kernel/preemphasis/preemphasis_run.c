/* SPDX-License-Identifier: Apache-2.0
 * Pre-emphasis on the CPU. float64 is processed element by element; other types are converted to blocks of float32, for which there is a loop that compilers
 * vectorise. */
#include "kernel/convert/convert.h"
#include "kernel/preemphasis/preemphasis.h"

enum { BLOCK = 512 };

static void filter(float *restrict y, const float *restrict x, float coefficient, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] - coefficient * x[i - 1];
}

void stk__preemphasis_run(const struct stk_job *job)
{
	const float coefficient = STK_PARAMS(stk_preemphasis, job).coefficient;
	const int32_t from = stk__job_size(job->src_dtype[0]), to = stk__job_size(job->dst_dtype);
	bool floats_in = job->src_dtype[0] == STK_FLOAT, floats_out = job->dst_dtype == STK_FLOAT, wide = job->src_dtype[0] == STK_FLOAT64;
	float converted[1 + BLOCK], result[BLOCK];
	stk__preemphasis_one(job, 0);
	for (int64_t i = 1, n; i < job->n; i += n) {
		n = job->n - i < BLOCK ? job->n - i : BLOCK;
		if (wide) {
			for (int64_t k = i; k < i + n; k++)
				stk__preemphasis_one(job, (uint32_t)k);
			continue;
		}
		const float *x = floats_in ? (const float *)(const void *)job->src[0] + i : converted + 1;
		float *y = floats_out ? (float *)(void *)job->dst + i : result;
		if (!floats_in)
			stk__convert(converted, STK_FLOAT, job->src[0] + (i - 1) * from, (enum stk_dtype)job->src_dtype[0], n + 1);
		filter(y, x, coefficient, n);
		if (!floats_out)
			stk__convert(job->dst + i * to, (enum stk_dtype)job->dst_dtype, y, STK_FLOAT, n);
	}
}
