/* SPDX-License-Identifier: Apache-2.0
 * Wrappers for instructions that need inline assembly or depend on the GPU's generation, and for shared memory whose size the launch sets. Other kernel
 * sources contain no inline assembly, so they also compile for the host, where test/cuda/cuda_cpp.h replaces this header and CUDA itself. */
#ifndef STK_KERNEL_CUDA_CUH
#define STK_KERNEL_CUDA_CUH

#ifndef STK_CUDA_EMULATED
#include <stdint.h>

/* Declares the launch's dynamic shared memory as an array, inside a function. All such declarations refer to the same memory. */
#define STK_SHARED_ARRAY(type, name) extern __shared__ __align__(16) type name[]

/* Copy 4 or 16 bytes from device memory to shared memory, asynchronously from sm_80 on; both addresses must be multiples of the size. stk__copy_commit closes
 * the calling thread's current group of copies. stk__copy_wait(n) waits until at most the last n groups are unfinished; n must be a constant. */
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

/* Returns x after an exchange between threads whose result the compiler cannot predict. So the compiler keeps the value in a register instead of computing
 * it again at each use. All threads of a warp must call this. */
static __device__ __forceinline__ uint32_t stk__keep(uint32_t x)
{
	return __shfl_sync(0xffffffffu, x, threadIdx.x % 32);
}

/* Returns p, and lets the compiler assume that p is an address in the GPU's global memory, so that loads and stores need not find out which memory it is in. */
template <typename T> static __device__ __forceinline__ T *stk__global(T *p)
{
	__builtin_assume(__isGlobal(p));
	return p;
}

/* Convert an address in shared memory to a number for calculations, and back. */
static __device__ __forceinline__ uint32_t stk__shared_number(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

template <typename T> static __device__ __forceinline__ T *stk__shared_at(uint32_t number)
{
	return (T *)__cvta_shared_to_generic(number);
}

/* Like stk__keep, for an address in shared memory. From sm_90 on, the compiler would otherwise compute it from the thread block's position in its cluster at
 * each use. */
template <typename T> static __device__ __forceinline__ T *stk__keep_shared(T *p)
{
	return stk__shared_at<T>(stk__keep(stk__shared_number(p)));
}

/* Returns x, but hides from the compiler how x was made. A compiler that knows that x was loaded as 16 bits would extend its sign at each use. */
static __device__ __forceinline__ int32_t stk__forget(int32_t x)
{
	asm("" : "+r"(x));
	return x;
}

/* Returns p, but hides from the compiler how p was computed. A compiler that knows that p is a sum would compute the sum again at each use. */
template <typename T> static __device__ __forceinline__ T *stk__forget(T *p)
{
	asm("" : "+l"(p));
	return p;
}

/* Return a word of two values saturated to int16_t, or of four values saturated to uint8_t. The first value is in the lowest bits. */
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

/* Return, for each half of two words, the minimum or maximum of two 16-bit numbers below 0x7c00. float16 values with such bits have the same order as the
 * bits, and GPUs from sm_80 on compare float16 in pairs. */
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

/* Returns the bits of x as float16, rounded to nearest even. The payload of a NaN is lost. */
static __device__ __forceinline__ uint16_t stk__half_bits(float x)
{
	uint16_t half;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
	return half;
}

/* Returns the bits of x as bfloat16, rounded to nearest even. The payload of a NaN is lost. */
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

/* Returns to every lane the minimum of v over all lanes of the warp. */
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

/* Returns to every lane the sum of v over all lanes of the warp. */
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
