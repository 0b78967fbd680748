/* SPDX-License-Identifier: Apache-2.0
 * Sharpens images on the GPU, with one value per thread at a time. Only for numbers of channels that kernel/image/image.h does not support. */
#include "kernel/enhance/enhance.h"
#include "kernel/job/job_find.cuh"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_enhance(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__enhance_one(&STK_PARAMS(stk_enhance, &it.job), it.job.src[0], it.job.dst, NULL, i);
}
