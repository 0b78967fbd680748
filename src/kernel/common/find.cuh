/* SPDX-License-Identifier: Apache-2.0
 * Searches n >= 1 elements, whose numbers never decrease, with a whole warp. Returns the index of the last element whose number is at most x; the first
 * element's number must be at most x. `first` points to the first element's number, and `stride` is the distance between elements in bytes. All threads of a
 * warp must call this together. A step takes as long as one access to memory, so each step compares 32 elements instead of one. */
#ifndef STK_KERNEL_FIND_CUH
#define STK_KERNEL_FIND_CUH

#include "kernel/common/cuda.cuh"

#include <stddef.h>

static __device__ __forceinline__ uint32_t stk__find_warp(const void *first, size_t stride, uint32_t n, uint32_t x)
{
	uint32_t low = 0; /* the search continues among the n elements from this index on */
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
