/* SPDX-License-Identifier: Apache-2.0
 * A lane's view of its bits on the GPU: a ring of WORDS words in shared memory that belongs to the lane alone, filled from global memory by
 * asynchronous copies some symbols ahead, so that no lane's load stalls its warp. */
#ifndef STK_KERNEL_JPEGPAR_RING_CUH
#define STK_KERNEL_JPEGPAR_RING_CUH

#include "kernel/cuda.cuh"

#define STK_RING_PAD 4 /* words between rings: spreads lanes over the banks, keeps 16-byte alignment */

template <int WORDS> struct stk_ring {
	uint32_t *words;
	const uint32_t *base;
	uint32_t next;	   /* quad of words to fetch */
	uint32_t high, low; /* the two words around the current bit */

	__device__ __forceinline__ void fetch()
	{
		stk__copy_ahead16(words + (next * 4 & (WORDS - 1)), base + (size_t)next * 4);
		next++;
	}

	template <int PENDING> __device__ __forceinline__ void settle()
	{
		stk__copy_commit();
		stk__copy_wait(PENDING);
	}

	/* `mine`: the lane's WORDS words; `from`: 16-byte aligned; p: the first bit. */
	__device__ __forceinline__ void start(uint32_t *mine, const uint32_t *from, uint32_t p)
	{
		words = mine;
		base = from;
		next = p >> 7;
#pragma unroll
		for (int i = 0; i < WORDS / 4; i++)
			fetch();
		settle<0>();
		high = words[(p >> 5) & (WORDS - 1)];
		low = words[((p >> 5) + 1) & (WORDS - 1)];
	}

	/* The 32 bits from p on. */
	__device__ __forceinline__ uint32_t ahead(uint32_t p) const
	{
		return __funnelshift_l(low, high, p);
	}

	__device__ __forceinline__ void move(uint32_t from, uint32_t to)
	{
		if ((from ^ to) & 32) {
			high = low;
			low = words[((to >> 5) + 1) & (WORDS - 1)];
		}
	}

	/* To be called every QUADS * 128 / 31 symbols at the latest. */
	template <int QUADS> __device__ __forceinline__ void refill(uint32_t p)
	{
#pragma unroll
		for (int i = 0; i < QUADS; i++)
			if (next * 4 <= (p >> 5) + WORDS - 4)
				fetch();
		settle<1>();
	}
};

/* Copies a set's tables to shared memory; entries is a multiple of 8. All threads of the block; synchronise behind it. */
__device__ __forceinline__ void stk__ring_load_tables(uint16_t *to, const uint16_t *from, uint32_t entries)
{
	for (uint32_t i = threadIdx.x; i < entries / 8; i += blockDim.x)
		((uint4 *)to)[i] = ((const uint4 *)from)[i];
}

#endif
