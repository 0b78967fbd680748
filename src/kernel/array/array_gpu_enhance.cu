/* SPDX-License-Identifier: Apache-2.0
 * Sharpness on the GPU, of images with another number of channels than the launches of images take (array_image.h): a value a thread. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/enhance/enhance.h"

#define THREADS STK_ARRAY_GPU_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) array_enhance(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__enhance_one(&it.job.enhance, it.job.src[0], it.job.dst, NULL, i);
}
