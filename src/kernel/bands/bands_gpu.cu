/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums along a dimension on the GPU, with at most STK_BANDS_EACH outputs per thread. */
#include "kernel/bands/bands.h"
#include "kernel/job/job_find.cuh"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_bands(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * (THREADS * STK_BANDS_EACH) + threadIdx.x;
	for (uint32_t k = 0; k < STK_BANDS_EACH; k++)
		if (first + k * THREADS < it.job.n)
			stk__bands_one(&it.job, first + k * THREADS);
}
