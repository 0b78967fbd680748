/* SPDX-License-Identifier: Apache-2.0
 * Filters on the GPU that are not tiled (array_gpu_filter_tiles.cu): the functions of filter_element.h, a value a thread, a launch for each phase. */
#include "kernel/array/array_element.h"
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/filter/filter_element.h"

extern "C" __global__ void __launch_bounds__(STK_ARRAY_GPU_THREADS) array_filter(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	const stk_filter &f = it.job.filter;
	int axes[STK_FILTER_PHASES], phases = stk__filter_phases(&f, axes);
	int phase = v.launch == STK_ARRAY_FILTER ? 0 : v.launch - STK_ARRAY_GPU_FILTER_1 + 1;
	outputs o = outputs_of(v, it, it.job.n * (phase < phases - 1 ? f.n_terms : 1));
	stk_filter_data data = stk__array_filter_data(&it.job);
	for (uint32_t i = o.begin; i < o.end; i += STK_ARRAY_GPU_THREADS)
		stk__filter_one(&f, &data, axes[phase], phase, phases, i);
}
