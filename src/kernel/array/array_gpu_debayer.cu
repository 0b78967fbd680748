/* SPDX-License-Identifier: Apache-2.0
 * Demosaicing on the GPU, a pixel a thread. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/debayer/debayer.h"

extern "C" __global__ void __launch_bounds__(STK_ARRAY_GPU_THREADS) array_debayer(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += STK_ARRAY_GPU_THREADS)
		stk__debayer_one(&it.job.debayer, it.job.src[0], it.job.dst, i);
}
