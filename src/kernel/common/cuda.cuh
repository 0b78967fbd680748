/* SPDX-License-Identifier: Apache-2.0
 * What kernels need beyond the language: every instruction that is written as such, and the shared memory whose size a launch sets. Kernels have no
 * inline assembly of their own, so that they also compile for a host: test/cuda/cuda_cpp.h then stands in for this header and for CUDA itself. */
#ifndef STK_KERNEL_CUDA_CUH
#define STK_KERNEL_CUDA_CUH

#ifndef STK_CUDA_EMULATED
#include <stdint.h>

/* Declares, in a function, the launch's dynamic shared memory as an array. All declarations mean the same memory. */
#define STK_SHARED_ARRAY(type, name) extern __shared__ __align__(16) type name[]

/* Copies from device to shared memory that go on by themselves (before sm_80 they are done at once): commit closes a thread's group of them;
 * wait(n), n a constant: all but its last n groups are there. */
static __device__ __forceinline__ void stk__copy_ahead4(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
	*(uint32_t *)to = *(const uint32_t *)from;
#endif
}

static __device__ __forceinline__ void stk__copy_ahead16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
	*(uint4 *)to = *(const uint4 *)from;
#endif
}

static __device__ __forceinline__ void stk__copy_commit(void)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 800
#define stk__copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#else
#define stk__copy_wait(n) ((void)0)
#endif

/* The same value, through an exchange that the compiler does not see through: it keeps the value in a register instead of working it out anew at each
 * use. For all threads of a warp. */
static __device__ __forceinline__ uint32_t stk__keep(uint32_t x)
{
	return __shfl_sync(0xffffffffu, x, threadIdx.x % 32);
}

/* An address in shared memory as a number, with which one may count, and the address again. */
static __device__ __forceinline__ uint32_t stk__shared_number(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

template <typename T> static __device__ __forceinline__ T *stk__shared_at(uint32_t number)
{
	return (T *)__cvta_shared_to_generic(number);
}

/* The same address in shared memory, likewise: from sm_90 on, that of an array is worked out from the thread block's place in its cluster. */
template <typename T> static __device__ __forceinline__ T *stk__keep_shared(T *p)
{
	return stk__shared_at<T>(stk__keep(stk__shared_number(p)));
}

/* The same value, of which the compiler knows nothing any more: that it was loaded as 16 bits, say, which makes it extend the sign at each use. */
static __device__ __forceinline__ int32_t stk__forget(int32_t x)
{
	asm("" : "+r"(x));
	return x;
}

/* Likewise: that it is a sum, say, whose parts are added anew at each use. */
template <typename T> static __device__ __forceinline__ T *stk__forget(T *p)
{
	asm("" : "+l"(p));
	return p;
}

/* Two values saturated to int16_t, and four to uint8_t, in one word; the first is the lowest. */
static __device__ __forceinline__ uint32_t stk__saturate_shorts(int32_t a, int32_t b)
{
	uint32_t word;
	asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(word) : "r"(b), "r"(a));
	return word;
}

static __device__ __forceinline__ uint32_t stk__saturate_bytes(int32_t a, int32_t b, int32_t c, int32_t d)
{
	uint32_t upper, word;
	asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(upper) : "r"(d), "r"(c));
	asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(a), "r"(upper));
	return word;
}

/* The lesser and the larger of two numbers of 16 bits each, below 0x7c00: so far halves, which GPUs from sm_80 on compare in pairs, are in the same order. */
static __device__ __forceinline__ uint32_t stk__min_shorts(uint32_t a, uint32_t b)
{
#if __CUDA_ARCH__ >= 800
	uint32_t less;
	asm("min.f16x2 %0, %1, %2;" : "=r"(less) : "r"(a), "r"(b));
	return less;
#else
	return __vminu2(a, b);
#endif
}

static __device__ __forceinline__ uint32_t stk__max_shorts(uint32_t a, uint32_t b)
{
#if __CUDA_ARCH__ >= 800
	uint32_t larger;
	asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
	return larger;
#else
	return __vmaxu2(a, b);
#endif
}

/* float16, rounded to nearest even; a NaN's payload is lost. */
static __device__ __forceinline__ uint16_t stk__half_bits(float x)
{
	uint16_t half;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
	return half;
}

/* bfloat16, likewise. */
static __device__ __forceinline__ uint16_t stk__bfloat_bits(float x)
{
#if __CUDA_ARCH__ >= 800
	uint16_t bits;
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
	return bits;
#else
	uint32_t u = __float_as_uint(x);
	return x == x ? (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16) : 0x7fff;
#endif
}

/* Least of all lanes, in all lanes. */
static __device__ __forceinline__ unsigned stk__warp_min(unsigned v)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_min_sync(0xffffffffu, v);
#else
	for (int d = 16; d; d >>= 1) {
		unsigned other = __shfl_xor_sync(0xffffffffu, v, d);
		v = other < v ? other : v;
	}
	return v;
#endif
}

/* Sum of all lanes, in all lanes. */
static __device__ __forceinline__ unsigned stk__warp_sum(unsigned v)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_add_sync(0xffffffffu, v);
#else
	for (int d = 16; d; d >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, d);
	return v;
#endif
}
#endif

#endif
