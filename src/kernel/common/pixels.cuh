/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts values to bytes, and stores pixels of a warp's lanes at adjacent addresses. */
#ifndef STK_KERNEL_PIXELS_CUH
#define STK_KERNEL_PIXELS_CUH

#include "kernel/common/cuda.cuh"

/* Returns x converted to uint8 like stk__convert_one: to nearest, halves up, saturating, NaN to 0. The sum x + 1/2 is rounded down: rounded to nearest, it
 * could reach a whole number that is larger than the exact sum. */
static __device__ __forceinline__ uint32_t stk__to_byte(float x)
{
	return min(__float2uint_rd(__fadd_rd(x, 0.5f)), 255u); /* the conversion turns negative numbers and NaN into 0 */
}

/* Returns a word of four values, converted like stk__to_byte; the first is in the lowest byte. */
static __device__ __forceinline__ uint32_t stk__to_bytes(float a, float b, float c, float d)
{
	return stk__saturate_bytes(__float2int_rd(__fadd_rd(a, 0.5f)), __float2int_rd(__fadd_rd(b, 0.5f)),
		__float2int_rd(__fadd_rd(c, 0.5f)), __float2int_rd(__fadd_rd(d, 0.5f)));
}

/* Stores n pixels of three bytes: the pixel of lane i at to + 3 * i, for each i < n. pixel: three bytes in the lowest bits; the fourth byte must be 0. Stores
 * whole words if n is at least 32 and `to` is a multiple of 4. All lanes of a warp must call this. */
static __device__ __forceinline__ void stk__store_rgb(uint8_t *to, uint32_t pixel, int32_t n)
{
	uint32_t lane = threadIdx.x % 32, from = 4 * lane / 3, shift = 8 * (4 * lane - 3 * from);
	if (n >= 32 && ((uintptr_t)to & 3) == 0) {
		uint32_t left = __shfl_sync(~0u, pixel, from), right = __shfl_sync(~0u, pixel, from + 1);
		if (lane < 24)
			((uint32_t *)(void *)to)[lane] = left >> shift | right << (24 - shift);
	} else if ((int32_t)lane < n) {
		to += 3 * lane;
		to[0] = (uint8_t)pixel;
		to[1] = (uint8_t)(pixel >> 8);
		to[2] = (uint8_t)(pixel >> 16);
	}
}

#endif
