/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h) over images that jobs make, such as the normalisation after an augmentation. A thread block makes the pixels that it needs
 * in shared memory, so the image itself is neither written nor read. */
#include "kernel/image/image_gpu.cuh"
#include "kernel/pass/pass_gpu_quads.cuh"

static_assert(4 * 3 * STK_PASS_GPU_QUADS == STK_JOB_IMAGE_VALUES, "a thread block's quads are a part of an image job");

template <bool INTERLEAVED>
static __device__ __forceinline__ void make_quads(const stk_pass_gpu_item &it, const ending &e, uint32_t first, const uint32_t *made)
{
	const uint32_t across = (uint32_t)it.axis[0].size / 4, n = across * (uint32_t)it.axis[1].size;
#pragma unroll
	for (int k = 0; k < QUADS; k++) {
		const uint32_t i = first + k * THREADS + threadIdx.x, *word = made + 3 * (k * THREADS + threadIdx.x);
		if (i >= n)
			break;
		uint32_t y = i / across;
		quad q = {{{word[0], word[1], word[2], 0}, 0}, (int32_t)(4 * (i - y * across)), (int32_t)y};
		make_floats<INTERLEAVED>(it, e, q);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_made(const __grid_constant__ stk_pass_gpu_view v)
{
	__shared__ stk_pass_gpu_item it;
	__shared__ __align__(16) uint8_t made[STK_JOB_IMAGE_VALUES];
	share_item(v, it);
	const stk_job &job = it.maker->job;
	const stk_job_image im = stk__job_image(&job);
	const uint32_t block = blockIdx.x - it.block0[v.launch];
	make_part(job, find_part(job, im, block), im, made);
	__syncthreads();
	const ending e = make_ending(v, it);
	if (e.interleaved)
		make_quads<true>(it, e, block * STK_PASS_GPU_QUADS, (const uint32_t *)(const void *)made);
	else
		make_quads<false>(it, e, block * STK_PASS_GPU_QUADS, (const uint32_t *)(const void *)made);
}
