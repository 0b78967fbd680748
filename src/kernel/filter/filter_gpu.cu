/* SPDX-License-Identifier: Apache-2.0
 * Filters on the GPU that can run neither in tiles (filter_tile.h) nor in columns of words (filter_words.h). Each thread computes one value at a time with the
 * functions of filter_element.h; there is one launch per phase. */
#include "kernel/filter/filter_element.h"
#include "kernel/job/job_find.cuh"

extern "C" __global__ void __launch_bounds__(STK_JOB_THREADS) job_filter(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	const stk_filter &f = STK_PARAMS(stk_filter, &it.job);
	int axes[STK_FILTER_PHASES], phases = stk__filter_phases(&f, axes);
	int phase = v.launch - STK_LAUNCH_filter;
	outputs o = outputs_of(v, it, it.job.n * (phase < phases - 1 ? f.n_terms : 1));
	stk_filter_data data = stk__job_filter_data(&it.job);
	for (uint32_t i = o.begin; i < o.end; i += STK_JOB_THREADS)
		stk__filter_one(&f, &data, axes[phase], phase, phases, i);
}
