/* SPDX-License-Identifier: Apache-2.0
 * Colours and sharpness on the GPU: where there is contrast a thread block a frame, which finds its mean luma, and then a thread a pixel. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/enhance/enhance.h"

#define THREADS STK_ARRAY_GPU_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) array_mean_luma(const __grid_constant__ stk_array_gpu_view v)
{
	__shared__ uint32_t sums[THREADS];
	const stk_array_gpu_item &it = v.items[find_item(v)];
	const stk_enhance &e = it.job.enhance;
	uint32_t frame = blockIdx.x - it.block0[v.launch], n = (uint32_t)e.width * (uint32_t)e.height, sum = 0;
	int32_t end = stk__enhance_measures(&e);
	const uint8_t *src = it.job.src[0] + (int64_t)frame * n * e.channels;
#pragma unroll 8
	for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
		int32_t p[3];
		stk__enhance_load(&e, src + (int64_t)i * e.channels, end, 0, p);
		sum += (uint32_t)stk__enhance_luma(p);
	}
	sums[threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.x == 0) {
		uint64_t all = 0;
		for (int t = 0; t < THREADS; t++)
			all += sums[t];
		((int32_t *)it.job.work)[frame] = stk__enhance_mean(all, n);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) array_enhance(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__enhance_one(&it.job.enhance, it.job.src[0], it.job.dst, (const int32_t *)it.job.work, i);
}
