/* SPDX-License-Identifier: Apache-2.0
 * Pointwise functions on the GPU, one output per thread at a time, by the functions of pointwise_element.h. Lookups of bytes run as jobs over images
 * (kernel/image/image.h) or in pointwise_gpu_lookup.cu, flat jobs that erase or mask in pointwise_gpu_mask.cu, and noise in pointwise_gpu_noise.cu. */
#include "kernel/job/job_find.cuh"
#include "kernel/pointwise/pointwise_element.h"

extern "C" __global__ void __launch_bounds__(STK_JOB_THREADS) job_pointwise(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	stk_pointwise_data data = stk__job_pointwise_data(&it.job);
	const stk_pointwise &p = STK_PARAMS(stk_pointwise, &it.job);
	for (uint32_t i = o.begin; i < o.end; i += STK_JOB_THREADS)
		stk__pointwise_one(&p, &data, i);
}
