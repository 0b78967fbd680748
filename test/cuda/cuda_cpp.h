/* SPDX-License-Identifier: Apache-2.0
 * CUDA C++ for a host compiler. kernels.py includes this before a .cu file: it defines the keywords, types and functions that our kernels use, and replaces
 * kernel/common/cuda.cuh. A kernel that uses anything else does not compile; add it here. */
#ifndef STK_TEST_CUDA_CPP_H
#define STK_TEST_CUDA_CPP_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>

#include "block.h"

#define STK_CUDA_EMULATED

/* ---- keywords ---- */

#ifdef STK_LIST_KERNELS /* kernels.py looks for this in the preprocessed text */
#define __global__ STK_LISTED_KERNEL
#else
#define __global__
#endif
#define __device__
#define __host__
#define __constant__
#define __shared__ __attribute__((section("stk_shared"))) static /* static, because one block runs at a time; block.c uses this section */
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx emulated.thread
#define blockIdx emulated.block
#define blockDim emulated.block_dim
#define gridDim emulated.grid_dim

#define STK_SHARED_ARRAY(type, name) type *name = (type *)emulated.shared

/* ---- types: with CUDA's alignment, so that UndefinedBehaviorSanitizer detects misaligned pointers ---- */

#define STK_VECTORS(type, name, size)                                                                                                      \
	struct __align__(2 * size) name##2                                                                                                 \
	{                                                                                                                                  \
		type x, y;                                                                                                                 \
	};                                                                                                                                 \
	struct __align__(4 * size) name##4                                                                                                 \
	{                                                                                                                                  \
		type x, y, z, w;                                                                                                           \
	};                                                                                                                                 \
	static inline name##2 make_##name##2(type x, type y)                                                                               \
	{                                                                                                                                  \
		return {x, y};                                                                                                             \
	}                                                                                                                                  \
	static inline name##4 make_##name##4(type x, type y, type z, type w)                                                               \
	{                                                                                                                                  \
		return {x, y, z, w};                                                                                                       \
	}
STK_VECTORS(signed char, char, 1)
STK_VECTORS(unsigned char, uchar, 1)
STK_VECTORS(short, short, 2)
STK_VECTORS(unsigned short, ushort, 2)
STK_VECTORS(int, int, 4)
STK_VECTORS(unsigned, uint, 4)
STK_VECTORS(float, float, 4)

/* ---- arithmetic ---- */

#define STK_MIN_MAX(a, b, result)                                                                                                          \
	static inline result min(a x, b y)                                                                                                 \
	{                                                                                                                                  \
		return (result)x < (result)y ? (result)x : (result)y;                                                                      \
	}                                                                                                                                  \
	static inline result max(a x, b y)                                                                                                 \
	{                                                                                                                                  \
		return (result)x > (result)y ? (result)x : (result)y;                                                                      \
	}
STK_MIN_MAX(int, int, int)
STK_MIN_MAX(unsigned, unsigned, unsigned)
STK_MIN_MAX(int, unsigned, unsigned)
STK_MIN_MAX(unsigned, int, unsigned)
STK_MIN_MAX(long, long, long)
STK_MIN_MAX(unsigned long, unsigned long, unsigned long)
static inline float min(float x, float y)
{
	return fminf(x, y);
}
static inline float max(float x, float y)
{
	return fmaxf(x, y);
}

template <typename To, typename From> static inline To stk__same_bits(From from)
{
	static_assert(sizeof(To) == sizeof(From), "the same size");
	To to;
	memcpy(&to, &from, sizeof to);
	return to;
}
static inline float __int_as_float(int v)
{
	return stk__same_bits<float>(v);
}
static inline float __uint_as_float(unsigned v)
{
	return stk__same_bits<float>(v);
}
static inline int __float_as_int(float v)
{
	return stk__same_bits<int>(v);
}
static inline unsigned __float_as_uint(float v)
{
	return stk__same_bits<unsigned>(v);
}
static inline long long __double_as_longlong(double v)
{
	return stk__same_bits<long long>(v);
}
static inline double __longlong_as_double(long long v)
{
	return stk__same_bits<double>(v);
}

static inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}
static inline int __ffs(int v)
{
	return __builtin_ffs(v);
}
static inline int __ffsll(long long v)
{
	return __builtin_ffsll(v);
}
static inline int __clzll(long long v)
{
	return v ? __builtin_clzll((unsigned long long)v) : 64;
}
static inline int __clz(int v)
{
	return v ? __builtin_clz((unsigned)v) : 32;
}
static inline float __frcp_rn(float v)
{
	return 1 / v;
}

static inline unsigned __float2uint_rd(float x)
{
	return !(x > 0) ? 0 : x < 0x1p32f ? (unsigned)x : ~0u;
}
static inline int __float2int_rd(float x)
{
	return x != x ? 0 : x < -0x1p31f ? -0x7fffffff - 1 : x < 0x1p31f ? (int)floorf(x) : 0x7fffffff;
}
static inline float __fadd_rd(float x, float y)
{
	double exact = (double)x + (double)y;
	float near = (float)exact;
	return (double)near > exact ? nextafterf(near, -INFINITY) : near;
}

static inline float __fmaf_rn(float x, float y, float z)
{
	return fmaf(x, y, z);
}
static inline double __fma_rn(double x, double y, double z)
{
	return fma(x, y, z);
}
/* Returns x * y + z rounded down. A double represents the product exactly; the sum must also be exact in a double. */
static inline float __fmaf_rd(float x, float y, float z)
{
	double exact = (double)x * (double)y + (double)z;
	float near = (float)exact;
	return (double)near > exact ? nextafterf(near, -INFINITY) : near;
}

/* Return the upper half of high:low << shift, and the lower half of high:low >> shift. */
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
	return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
	return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

/* Returns 4 of the 8 bytes of y:x. Byte i of the result is byte (select >> 4 * i & 7) of y:x. The sign mode, bit 3 of a selector, is not implemented. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned select)
{
	uint64_t both = (uint64_t)y << 32 | x;
	unsigned result = 0;
	for (int i = 0; i < 4; i++)
		result |= (unsigned)(both >> 8 * (select >> 4 * i & 7) & 255) << 8 * i;
	return result;
}

/* Returns z plus the four products of a byte of x and the same byte of y. */
static inline unsigned __dp4a(unsigned x, unsigned y, unsigned z)
{
	for (int i = 0; i < 32; i += 8)
		z += (x >> i & 255) * (y >> i & 255);
	return z;
}

/* Returns a word whose byte i is ff if byte i of x equals byte i of y, else 00. */
static inline unsigned __vcmpeq4(unsigned x, unsigned y)
{
	unsigned result = 0;
	for (int i = 0; i < 32; i += 8)
		result |= (x >> i & 255) == (y >> i & 255) ? 255u << i : 0;
	return result;
}

template <typename T> static inline T *stk__global(T *p)
{
	return p;
}

static inline int32_t stk__forget(int32_t x)
{
	return x;
}
template <typename T> static inline T *stk__forget(T *p)
{
	return p;
}
static inline uint32_t stk__saturate_shorts(int32_t a, int32_t b)
{
	return (uint16_t)max(min(a, 32767), -32768) | (uint32_t)(uint16_t)max(min(b, 32767), -32768) << 16;
}
static inline uint32_t stk__saturate_bytes(int32_t a, int32_t b, int32_t c, int32_t d)
{
	const int32_t all[4] = {a, b, c, d};
	uint32_t word = 0;
	for (int i = 0; i < 4; i++)
		word |= (uint32_t)max(min(all[i], 255), 0) << 8 * i;
	return word;
}

static inline uint32_t stk__min_shorts(uint32_t a, uint32_t b)
{
	return min(a >> 16, b >> 16) << 16 | min(a & 0xffff, b & 0xffff);
}
static inline uint32_t stk__max_shorts(uint32_t a, uint32_t b)
{
	return max(a >> 16, b >> 16) << 16 | max(a & 0xffff, b & 0xffff);
}

/* Converts to float16, rounded to nearest even. A double represents every step of the computation exactly. */
static inline uint16_t stk__half_bits(float x)
{
	uint32_t sign = __float_as_uint(x) >> 16 & 0x8000;
	double size = fabs((double)x);
	if (!(size < 65520)) /* too large, infinite or NaN */
		return (uint16_t)(sign | (x == x ? 0x7c00 : 0x7fff));
	int exponent = size < 0x1p-14 ? -14 : ilogb(size);
	uint32_t steps = (uint32_t)nearbyint(
		ldexp(size, 10 - exponent)); /* the value in units in the last place: 1024 to 2048, fewer if it is subnormal */
	return (uint16_t)(sign | (((uint32_t)(exponent + 14) << 10) + steps));
}

/* Converts to bfloat16, rounded to nearest even. */
static inline uint16_t stk__bfloat_bits(float x)
{
	uint32_t sign = __float_as_uint(x) >> 16 & 0x8000, size = __float_as_uint(x) & 0x7fffffff;
	uint32_t whole = size >> 16, rest = size & 0xffff;
	return x == x ? (uint16_t)(sign | (whole + (rest > 0x8000 || (rest == 0x8000 && (whole & 1))))) : 0x7fff;
}

/* ---- memory ---- */

/* On a GPU, the functions that call emulated_global are instructions that can only access global memory, so a pointer to other memory is an error. */
template <typename T> static inline T __ldg(const T *p)
{
	emulated_global("__ldg", p);
	return *p;
}
template <typename T> static inline T __ldcs(const T *p)
{
	emulated_global("__ldcs", p);
	return *p;
}
template <typename T> static inline void __stcs(T *p, T v)
{
	emulated_global("__stcs", p);
	*p = v;
}
static inline void __threadfence()
{
}

/* Stores v and returns the old value, for atomic functions. Needs no atomic instruction, because fibers do not interrupt each other. */
template <typename T> static inline T stk__replace(T *p, T v)
{
	T old = *p;
	*p = v;
	return old;
}
template <typename T, typename V> static inline T atomicAdd(T *p, V v)
{
	return stk__replace(p, (T)(*p + (T)v));
}
template <typename T, typename V> static inline T atomicOr(T *p, V v)
{
	return stk__replace(p, (T)(*p | (T)v));
}
template <typename T, typename V> static inline T atomicAnd(T *p, V v)
{
	return stk__replace(p, (T)(*p & (T)v));
}
template <typename T, typename V> static inline T atomicMin(T *p, V v)
{
	return stk__replace(p, *p < (T)v ? *p : (T)v);
}
template <typename T, typename V> static inline T atomicMax(T *p, V v)
{
	return stk__replace(p, *p > (T)v ? *p : (T)v);
}
template <typename T, typename V> static inline T atomicExch(T *p, V v)
{
	return stk__replace(p, (T)v);
}
template <typename T> static inline T atomicCAS(T *p, T was, T v)
{
	return stk__replace(p, *p == was ? v : *p);
}

static inline void stk__copy_ahead4(void *to, const void *from)
{
	emulated_copy(to, from, 4);
}
static inline void stk__copy_ahead16(void *to, const void *from)
{
	emulated_copy(to, from, 16);
}
static inline void stk__copy_commit()
{
	emulated_copy_commit();
}
#define stk__copy_wait(n) emulated_copy_wait(n)

static inline uint32_t stk__keep(uint32_t x)
{
	return x;
}
static inline uint32_t stk__shared_number(const void *p) /* returns the offset of p in dynamic shared memory */
{
	return (uint32_t)((const char *)p - (const char *)emulated.shared);
}
template <typename T> static inline T *stk__shared_at(uint32_t number)
{
	return (T *)((char *)emulated.shared + number);
}
template <typename T> static inline T *stk__keep_shared(T *p)
{
	return p;
}

/* ---- threads ---- */

static inline void __syncthreads()
{
	emulated_sync_block();
}

/* Accepts only the mask of the whole warp, since our kernels use no other. */
static inline unsigned stk__vote(const char *what, unsigned mask, int set)
{
	if (mask != ~0u)
		emulated_refuse("the mask of a warp's instruction is not the whole warp");
	return emulated_vote(what, set);
}
static inline void __syncwarp(unsigned mask = ~0u)
{
	stk__vote("__syncwarp", mask, 0);
}
static inline unsigned __ballot_sync(unsigned mask, int set)
{
	return stk__vote("__ballot_sync", mask, set);
}
static inline int __any_sync(unsigned mask, int set)
{
	return stk__vote("__any_sync", mask, set) != 0;
}
static inline int __all_sync(unsigned mask, int set)
{
	return stk__vote("__all_sync", mask, !set) == 0;
}

/* Returns the value v of lane `from`, or the caller's own v if `from` is outside the warp. */
template <typename T> static inline T stk__shuffle(const char *what, unsigned mask, T v, int from)
{
	static_assert(sizeof(T) <= 8, "at most 8 bytes");
	uint64_t mine = 0;
	if (mask != ~0u)
		emulated_refuse("the mask of a warp's instruction is not the whole warp");
	memcpy(&mine, &v, sizeof v);
	const uint64_t *all = emulated_exchange(what, mine);
	if (from >= 0 && from < 32)
		memcpy(&v, &all[from], sizeof v);
	return v;
}
static inline int stk__lane()
{
	return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}
template <typename T> static inline T __shfl_sync(unsigned mask, T v, int lane)
{
	return stk__shuffle("__shfl_sync", mask, v, lane & 31);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T v, int by)
{
	return stk__shuffle("__shfl_up_sync", mask, v, stk__lane() - by);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T v, int by)
{
	return stk__shuffle("__shfl_down_sync", mask, v, stk__lane() + by);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T v, int by)
{
	return stk__shuffle("__shfl_xor_sync", mask, v, stk__lane() ^ by);
}

static inline unsigned stk__warp_min(unsigned v)
{
	const uint64_t *all = emulated_exchange("__reduce_min_sync", (uint64_t)v + 1); /* + 1: 0 stands for a lane that has returned */
	for (int i = 0; i < 32; i++)
		v = all[i] && all[i] - 1 < v ? (unsigned)(all[i] - 1) : v;
	return v;
}

static inline unsigned stk__warp_sum(unsigned v)
{
	for (int by = 16; by; by >>= 1)
		v += __shfl_xor_sync(~0u, v, by);
	return v;
}

/* ---- a kernel's entry in the table that kernels.py makes ---- */

template <auto kernel> struct stk__kernel;
template <typename... Arguments, void (*kernel)(Arguments...)> struct stk__kernel<kernel> {
	using packed = std::tuple<Arguments...>;

	template <size_t... i> static void pack_each(packed *to, void *const params[], std::index_sequence<i...>)
	{
		((std::get<i>(*to) = *(const std::tuple_element_t<i, packed> *)params[i]), ...);
	}
	static void pack(void *to, void *const params[])
	{
		pack_each((packed *)to, params, std::index_sequence_for<Arguments...>());
	}
	static void run(const void *from)
	{
		std::apply(kernel, *(const packed *)from);
	}
	static constexpr emulated_kernel describe(const char *module, const char *name)
	{
		return {module, name, sizeof(packed), pack, run};
	}
};

#endif
