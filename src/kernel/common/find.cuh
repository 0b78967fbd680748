/* SPDX-License-Identifier: Apache-2.0
 * Binary search with a whole warp. Of n elements with ascending numbers, finds the last whose number is at most x; the first element's number must be.
 * `first` points to the first element's number. All threads of a warp call this together and get the element's index. Compares 32 elements a step instead of
 * one as stk__jpeg_gpu_find does, since each step waits for memory. */
#ifndef STK_KERNEL_FIND_CUH
#define STK_KERNEL_FIND_CUH

#include "kernel/common/cuda.cuh"

#include <stddef.h>

static __device__ __forceinline__ uint32_t stk__find_warp(const void *first, size_t stride, uint32_t n, uint32_t x)
{
	uint32_t low = 0; /* the element is one of the n from here on */
	while (n > 1) {
		uint32_t step = (n + 31) / 32, mine = step * (threadIdx.x % 32);
		uint32_t number = *(const uint32_t *)((const char *)first + (low + min(mine, n - 1)) * stride);
		bool reached = mine < n && number <= x;
		uint32_t before = step * (__popc(__ballot_sync(~0u, reached)) - 1);
		low += before;
		n = min(step, n - before);
	}
	return low;
}

#endif
