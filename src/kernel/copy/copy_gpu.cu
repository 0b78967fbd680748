/* SPDX-License-Identifier: Apache-2.0
 * Copies on the GPU, with one output per thread at a time. */
#include "kernel/copy/copy_one.h"
#include "kernel/job/job_find.cuh"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_copy(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS) {
		stk_job_place p = stk__job_place(&it.job, i);
		stk__job_copy_one(&it.job, &p);
	}
}
