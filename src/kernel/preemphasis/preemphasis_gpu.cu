/* SPDX-License-Identifier: Apache-2.0
 * Pre-emphasis on the GPU, with one output per thread at a time. */
#include "kernel/job/job_find.cuh"
#include "kernel/preemphasis/preemphasis.h"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_preemphasis(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__preemphasis_one(&it.job, i);
}
