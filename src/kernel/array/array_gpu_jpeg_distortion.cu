/* SPDX-License-Identifier: Apache-2.0
 * JPEG distortion on the GPU: a launch for each phase. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"

extern "C" __global__ void __launch_bounds__(STK_ARRAY_GPU_THREADS) array_jpeg_distortion(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	const stk_jpeg_distortion &j = it.job.jpeg_distortion;
	int phase = v.launch == STK_ARRAY_JPEG_DISTORTION ? 0 : v.launch - STK_ARRAY_GPU_JPEG_1 + 1;
	outputs o = outputs_of(v, it, stk__jpeg_distortion_values(&j, phase));
	for (uint32_t i = o.begin; i < o.end; i += STK_ARRAY_GPU_THREADS)
		stk__jpeg_distortion_one(&j, it.job.src[0], it.job.dst, (uint8_t *)it.job.work, phase, i);
}
