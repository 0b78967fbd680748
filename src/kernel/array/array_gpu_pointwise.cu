/* SPDX-License-Identifier: Apache-2.0
 * Pointwise functions on the GPU: the functions of pointwise_element.h, an output a thread. Lookups of bytes are jobs over images (array_image.h), or have
 * a kernel of their own (array_gpu_lookup.cu). */
#include "kernel/array/array_element.h"
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/pointwise/pointwise_element.h"

extern "C" __global__ void __launch_bounds__(STK_ARRAY_GPU_THREADS) array_pointwise(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	stk_pointwise_data data = stk__array_pointwise_data(&it.job);
	const stk_pointwise &p = it.job.pointwise;
	for (uint32_t i = o.begin; i < o.end; i += STK_ARRAY_GPU_THREADS)
		stk__pointwise_one(&p, &data, i);
}
