/* SPDX-License-Identifier: Apache-2.0
 * The last of n elements whose first number, or the one at `first`, is not above x; the first element's is not. By the threads of a warp together, which
 * all get its number: 32 elements a step instead of one (stk__jpegpar_find), since each step waits for memory. */
#ifndef STK_KERNEL_FIND_CUH
#define STK_KERNEL_FIND_CUH

#include "kernel/common/cuda.cuh"

#include <stddef.h>

static __device__ __forceinline__ uint32_t stk__find_warp(const void *first, size_t stride, uint32_t n, uint32_t x)
{
	uint32_t low = 0; /* it is one of the n from here on */
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
