/* SPDX-License-Identifier: Apache-2.0
 * Affine maps of points on the GPU, with one component of an output point per thread at a time. */
#include "kernel/job/job_find.cuh"
#include "kernel/points/points_one.h"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_points(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__job_points_one(&it.job, i);
}
