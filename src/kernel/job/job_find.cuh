/* SPDX-License-Identifier: Apache-2.0
 * Functions with which the kernels of jobs find a thread block's job and outputs, and whether the block is the last one to finish. */
#ifndef STK_KERNEL_JOB_FIND_CUH
#define STK_KERNEL_JOB_FIND_CUH

#include "kernel/common/cuda.cuh"
#include "kernel/common/find.cuh"
#include "kernel/job/job_gpu.h"

/* Returns the index of the thread block's item: the last one whose first block is not after this block. Items without blocks in this launch are skipped.
 * All threads of a warp must call this. If all items have the same number of blocks, a division replaces the search, which would
 * wait for memory several times. */
static __device__ __forceinline__ uint32_t find_item(const stk_job_gpu_view &v)
{
	if (v.each)
		return blockIdx.x / v.each;
	return stk__find_warp(&v.items->block0[v.launch], sizeof *v.items, v.n_items, blockIdx.x);
}

/* Returns the thread block's item, copied to shared memory so that threads wait for its fields only once. All threads must call this. */
static __device__ __forceinline__ const stk_job_gpu_item &share_item(const stk_job_gpu_view &v)
{
	__shared__ stk_job_gpu_item shared;
	const uint32_t *from = (const uint32_t *)(const void *)&v.items[find_item(v)];
	for (uint32_t i = threadIdx.x; i < sizeof shared / 4; i += blockDim.x)
		((uint32_t *)(void *)&shared)[i] = from[i];
	__syncthreads();
	return shared;
}

/* Returns true to all threads if their thread block is the last of `blocks` blocks to call this function. The block can then read what the other blocks stored
 * before. *arrived: counts the blocks; must be 0 before the first call. All threads must call this. */
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

/* The outputs that a thread makes: begin, begin + STK_JOB_THREADS and so on, below end. */
struct outputs {
	uint32_t begin, end;
};

/* Returns the outputs of this thread. n: number of the job's outputs in this launch. */
static __device__ __forceinline__ outputs outputs_of(const stk_job_gpu_view &v, const stk_job_gpu_item &it, int64_t n)
{
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * STK_JOB_OUTPUTS;
	outputs o = {first + threadIdx.x, min(first + STK_JOB_OUTPUTS, (uint32_t)n)};
	return o;
}

#endif
