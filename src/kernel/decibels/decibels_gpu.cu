/* SPDX-License-Identifier: Apache-2.0
 * Decibels on the GPU, with one output per thread at a time. If the reference is 0, the tensor's largest value replaces it. */
#include "kernel/decibels/decibels.h"
#include "kernel/job/job_find.cuh"

#define THREADS STK_JOB_THREADS

/* Raises the job's constant, which is 0 before, to the bits of the largest value above 0. These bits, as integers, have the same order as the floats. */
extern "C" __global__ void __launch_bounds__(THREADS) job_decibels_largest(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ uint32_t largest;
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	const float *x = (const float *)it.job.src[0];
	float mine = 0;
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		mine = x[i] > mine ? x[i] : mine;
	if (threadIdx.x == 0)
		largest = 0;
	__syncthreads();
	atomicMax(&largest, stk__decibels_bits(mine));
	__syncthreads();
	if (threadIdx.x == 0)
		atomicMax((uint32_t *)it.job.constants, largest);
}

extern "C" __global__ void __launch_bounds__(THREADS) job_decibels(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	const stk_decibels p = STK_PARAMS(stk_decibels, &it.job);
	const float *x = (const float *)it.job.src[0];
	float *y = (float *)it.job.dst, reference = p.reference;
	if (reference == 0) {
		uint32_t bits = *(const uint32_t *)it.job.constants;
		reference = bits ? stk__decibels_float(bits) : 1;
	}
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		y[i] = stk__decibels_one(&p, reference, x[i]);
}
