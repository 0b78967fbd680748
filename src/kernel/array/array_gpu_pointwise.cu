/* SPDX-License-Identifier: Apache-2.0
 * Pointwise functions on the GPU: the functions of pointwise_element.h, an output a thread. */
#include "kernel/array/array_element.h"
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/pointwise/pointwise_element.h"

extern "C" __global__ void __launch_bounds__(STK_ARRAY_GPU_THREADS) array_pointwise(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	stk_pointwise_data data = stk__array_pointwise_data(&it.job);
	const stk_pointwise &p = it.job.pointwise;
	if (p.op == STK_POINTWISE_LOOKUP && data.src_dtype == STK_UINT8 && data.dst_size == 1 && p.lookup.entries == 256) { /* bytes to bytes */
		const uint8_t *table = (const uint8_t *)data.constants;
		for (uint32_t i = o.begin; i < o.end; i += STK_ARRAY_GPU_THREADS)
			data.dst[i] = table[data.src[i]];
		return;
	}
	for (uint32_t i = o.begin; i < o.end; i += STK_ARRAY_GPU_THREADS)
		stk__pointwise_one(&p, &data, i);
}
