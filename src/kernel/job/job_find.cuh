/* SPDX-License-Identifier: Apache-2.0
 * Which job a thread block works on, at which of its outputs, and whether it comes last, for the kernels of jobs. */
#ifndef STK_KERNEL_JOB_FIND_CUH
#define STK_KERNEL_JOB_FIND_CUH

#include "kernel/common/cuda.cuh"
#include "kernel/common/find.cuh"
#include "kernel/job/job_gpu.h"

/* The last item that begins at the thread block or before. Items that take no part in this launch have no blocks in it. For all
 * threads of a warp. A search waits for memory a few times, which takes as long as to copy some thousand bytes: batches of one shape do without. */
static __device__ __forceinline__ uint32_t find_item(const stk_job_gpu_view &v)
{
	if (v.each)
		return blockIdx.x / v.each;
	return stk__find_warp(&v.items->block0[v.launch], sizeof *v.items, v.n_items, blockIdx.x);
}

/* The thread block's item, copied to shared memory, so that its fields are waited for once. For all threads. */
static __device__ __forceinline__ const stk_job_gpu_item &share_item(const stk_job_gpu_view &v)
{
	__shared__ stk_job_gpu_item shared;
	const uint32_t *from = (const uint32_t *)(const void *)&v.items[find_item(v)];
	for (uint32_t i = threadIdx.x; i < sizeof shared / 4; i += blockDim.x)
		((uint32_t *)(void *)&shared)[i] = from[i];
	__syncthreads();
	return shared;
}

/* True in all threads of the thread block that comes last of `blocks`: what all of them have written is there. For all threads. */
static __device__ __forceinline__ bool stk__comes_last(uint32_t *arrived, uint32_t blocks)
{
	__shared__ bool last;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(arrived, 1u) == blocks - 1;
	__syncthreads();
	__threadfence();
	return last;
}

/* The outputs of a thread: begin, begin + STK_JOB_THREADS, ... below end. */
struct outputs {
	uint32_t begin, end;
};

/* n: of the job, in this launch. */
static __device__ __forceinline__ outputs outputs_of(const stk_job_gpu_view &v, const stk_job_gpu_item &it, int64_t n)
{
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * STK_JOB_OUTPUTS;
	outputs o = {first + threadIdx.x, min(first + STK_JOB_OUTPUTS, (uint32_t)n)};
	return o;
}

#endif
