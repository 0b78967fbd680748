/* SPDX-License-Identifier: Apache-2.0
 * Resampling of signals on the GPU, with one output per thread. */
#include "kernel/job/job_find.cuh"
#include "kernel/sinc/sinc.h"

#define THREADS STK_JOB_THREADS

/* Returns sample i of a channel as a float, or 0 outside the signal. Samples of integer types are scaled to -1 .. 1. */
static __device__ __forceinline__ float load_sample(const stk_job &job, const stk_sinc &p, int64_t i, int64_t channel, float scale)
{
	if (i < 0 || i >= p.in)
		return 0;
	int32_t dtype = job.src_dtype[0];
	float x = stk__job_float(job.src[0] + (i * p.channels + channel) * stk__job_size(dtype), dtype);
	return dtype == STK_FLOAT ? x : stk__sinc_load(x, scale, stk__sinc_unsigned(dtype));
}

/* Adds eight taps times their weights to the partial sums. next: sums with the weights of the table's next row; computed only if p.phases is 0. */
static __device__ __forceinline__ void add_taps(const stk_sinc &p, const float *x, const float *row, float *sum, float *next)
{
#pragma unroll
	for (int32_t l = 0; l < STK_SINC_LANES; l++) {
		sum[l] += x[l] * row[l];
		if (p.phases == 0)
			next[l] += x[l] * row[p.taps + l];
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) job_sinc(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	const stk_job &job = it.job;
	const stk_sinc p = STK_PARAMS(stk_sinc, &job);
	uint32_t i = (blockIdx.x - it.block0[v.launch]) * THREADS + threadIdx.x;
	if (i >= job.n)
		return;
	uint32_t sample = i / (uint32_t)p.channels, channel = i - sample * (uint32_t)p.channels;
	stk_sinc_at at = stk__sinc_at(&p, sample);
	const float *row = (const float *)job.constants + at.row * p.taps;
	float sum[STK_SINC_LANES] = {0}, next[STK_SINC_LANES] = {0};
	float scale = (stk__sinc_unsigned(job.src_dtype[0]) ? 2 : 1) / stk__sinc_largest(job.src_dtype[0]);
	bool plain = job.src_dtype[0] == STK_FLOAT && p.channels == 1 && at.first >= 0 && at.first + p.taps <= p.in;
	const float *from = (const float *)job.src[0] + at.first;
	for (int32_t k = 0; k < p.taps; k += STK_SINC_LANES) {
		float x[STK_SINC_LANES];
#pragma unroll
		for (int32_t l = 0; l < STK_SINC_LANES; l++)
			x[l] = plain ? from[k + l] : load_sample(job, p, at.first + k + l, channel, scale);
		add_taps(p, x, row + k, sum, next);
	}
	float result = stk__sinc_join(sum), largest = stk__sinc_largest(job.dst_dtype);
	if (p.phases == 0)
		result = result + at.part * (stk__sinc_join(next) - result);
	if (largest > 0)
		result = stk__sinc_store(result, largest, stk__sinc_unsigned(job.dst_dtype));
	stk__convert_one(job.dst + (int64_t)i * stk__job_size(job.dst_dtype), job.dst_dtype, &result, STK_FLOAT);
}
