/* SPDX-License-Identifier: Apache-2.0
 * Reads adjacent bytes, which may begin at any address, by loads of aligned words. */
#ifndef STK_KERNEL_SPAN_CUH
#define STK_KERNEL_SPAN_CUH

#include "kernel/common/cuda.cuh"

template <int BYTES> struct stk_span {
	static constexpr int WORDS = (BYTES + 3) / 4;
	uint32_t word[WORDS + 1], shift; /* the span's first byte is byte number shift / 8 of the words */
};

/* Loads and returns a span of BYTES bytes. `words` points to the aligned word that contains the first byte, and `before` bytes of that word precede the
 * span. Does not read words that contain no byte of the span. */
template <int BYTES> static __device__ __forceinline__ stk_span<BYTES> stk__span_load(const uint32_t *words, uint32_t before)
{
	stk_span<BYTES> s;
	constexpr int WORDS = stk_span<BYTES>::WORDS;
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		s.word[i] = __ldg(words + i);
	s.word[WORDS] = before + BYTES > 4 * WORDS ? __ldg(words + WORDS) : 0;
	s.shift = 8 * before;
	return s;
}

template <int BYTES> static __device__ __forceinline__ stk_span<BYTES> stk__span_of(const uint8_t *from)
{
	return stk__span_load<BYTES>((const uint32_t *)((uintptr_t)from & ~(uintptr_t)3), (uint32_t)(uintptr_t)from & 3);
}

/* Stores the span's bytes in `word`, the first one in the lowest byte of word[0]. */
template <int BYTES>
static __device__ __forceinline__ void stk__span_align(const stk_span<BYTES> &s, uint32_t (&word)[stk_span<BYTES>::WORDS])
{
#pragma unroll
	for (int i = 0; i < stk_span<BYTES>::WORDS; i++)
		word[i] = __funnelshift_r(s.word[i], s.word[i + 1], s.shift);
}

#endif
