/* SPDX-License-Identifier: Apache-2.0
 * Affine maps of images of bytes on the GPU, with another number of channels than the launches of images take (array_image.h): a pixel a thread. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/transform/transform.h"

extern "C" __global__ void __launch_bounds__(STK_ARRAY_GPU_THREADS) array_transform(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += STK_ARRAY_GPU_THREADS)
		stk__transform_one(&it.job.transform, it.job.src[0], it.job.dst, i);
}
