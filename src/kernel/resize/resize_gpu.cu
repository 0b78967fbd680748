/* SPDX-License-Identifier: Apache-2.0
 * Resampling of tensors on the GPU, with one value per thread at a time. */
#include "kernel/job/job_find.cuh"
#include "kernel/resize/resize_one.h"

#define THREADS STK_JOB_THREADS

/* Makes the outputs of one phase. Each phase has a launch of its own. */
extern "C" __global__ void __launch_bounds__(THREADS) job_resize(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	int phase = v.launch - STK_LAUNCH_resize;
	outputs o = outputs_of(v, it, stk__resize_outputs(&STK_PARAMS(stk_job_resize, &it.job).phase[phase]));
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__job_resize_one(&it.job, phase, i);
}
