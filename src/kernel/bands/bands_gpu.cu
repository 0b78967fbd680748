/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums along a dimension on the GPU, with one output per thread. */
#include "kernel/bands/bands.h"
#include "kernel/job/job_find.cuh"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_bands(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	uint32_t i = (blockIdx.x - it.block0[v.launch]) * THREADS + threadIdx.x;
	if (i < it.job.n)
		stk__bands_one(&it.job, i);
}
