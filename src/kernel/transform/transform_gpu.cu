/* SPDX-License-Identifier: Apache-2.0
 * Affine maps of images on the GPU, with one pixel per thread at a time. Only for numbers of channels that kernel/image/image.h does not support. */
#include "kernel/job/job_find.cuh"
#include "kernel/transform/transform.h"

extern "C" __global__ void __launch_bounds__(STK_JOB_THREADS) job_transform(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += STK_JOB_THREADS)
		stk__transform_one(&STK_PARAMS(stk_transform, &it.job), it.job.src[0], it.job.dst, i);
}
