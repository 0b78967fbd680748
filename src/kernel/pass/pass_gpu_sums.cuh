/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic of resizes from uint8 and float32 on the GPU, with a struct for each kind of kernel/resample/resample.h: narrow, wide and real. Each adds up
 * products with weights: vertically those of the source's values, then horizontally those of the intermediate values. total: type of a sum; kept: type of an
 * intermediate value. The results have the same bits as those of resample.c. */
#ifndef STK_KERNEL_PASS_GPU_SUMS_CUH
#define STK_KERNEL_PASS_GPU_SUMS_CUH

#include "kernel/common/cuda.cuh"
#include "kernel/pass/pass_gpu.cuh"
#include "kernel/resample/filter_taps.h"

#define TOGETHER 4 /* number of rows that a thread makes at a time */

/* Adds up v * w >> shift with one instruction per product. An integer v < 2^24 is reinterpreted as the float with the same bits, which is v * 2^-149 (the
 * subnormal numbers and the smallest normal ones are equally spaced). The product with an integer weight is exact inside a fused multiply-add. The sum
 * begins at 2^23 units of the result after the shift. There a float's last bit is one such unit, so rounding down drops exactly the bits that the shift
 * would drop. */
struct narrow {
	using source = uint8_t;
	using total = float; /* the low 16 bits of the float's representation are the sum */
	using kept = uint16_t;

	/* Begins a sum of value * w >> shift. at: number of bits by which the values are shifted to the left; bias: the initial value of the sum. */
	static __device__ __forceinline__ total begin(int at, int shift, int32_t bias)
	{
		return __int_as_float((at + shift + 1) << 23 | bias); /* the float 2^(23 + at + shift - 149) */
	}

	/* Begins a sum over byte k of words. The byte is used in place, without a shift, except the last byte, which is shifted to the lowest. */
	static __device__ __forceinline__ total start_byte(int k, int32_t bias)
	{
		return begin(k < 3 ? 8 * k : 0, 8, bias);
	}

	static __device__ __forceinline__ void add_byte(total &sum, uint32_t word, int k, float weight)
	{
		sum = __fmaf_rd(__uint_as_float(k < 3 ? word & 255u << 8 * k : word >> 24), weight, sum);
	}

	static __device__ __forceinline__ kept keep(total sum)
	{
		return (kept)__float_as_uint(sum);
	}

	static __device__ __forceinline__ total start(int32_t bias)
	{
		return begin(0, 16, bias);
	}

	static __device__ __forceinline__ void add(total &sum, kept value, float weight)
	{
		sum = __fmaf_rd(__uint_as_float(value), weight, sum);
	}

	/* Returns the sum divided by 2^8, rounded to nearest even: after 2^23 is added, no bits remain for a fraction. */
	static __device__ __forceinline__ float result(total sum, int32_t)
	{
		return __fmaf_rn(sum, 0x1p125f, 0x1p23f - 0x1p15f) - 0x1p23f;
	}
};

struct wide {
	using source = uint8_t;
	using total = uint32_t; /* the bits of an int32; unsigned, since sums of rows whose results are not used may overflow */
	using kept = int16_t;
	static constexpr int shift = STK_FILTER_WIDE_SHIFT - STK_WIDE_BITS, last_shift = STK_FILTER_WIDE_SHIFT + STK_WIDE_BITS;

	static __device__ __forceinline__ total start_byte(int, int32_t)
	{
		return 1 << (shift - 1);
	}

	static __device__ __forceinline__ void add_byte(total &sum, uint32_t word, int k, float weight)
	{
		sum += (word >> 8 * k & 255) * __float_as_uint(weight);
	}

	static __device__ __forceinline__ kept keep(total sum)
	{
		return (kept)stk__taps_clamp((int32_t)sum >> shift, -32768, 32767);
	}

	static __device__ __forceinline__ total start(int32_t)
	{
		return 1 << (last_shift - 1);
	}

	static __device__ __forceinline__ void add(total &sum, kept value, float weight)
	{
		sum += (uint32_t)value * __float_as_uint(weight);
	}

	static __device__ __forceinline__ float result(total sum, int32_t)
	{
		return (float)stk__taps_clamp((int32_t)sum >> last_shift, 0, 255);
	}
};

struct real {
	using source = uint8_t;
	using total = float;
	using kept = float;

	static __device__ __forceinline__ total start_byte(int, int32_t)
	{
		return 0;
	}

	static __device__ __forceinline__ void add_byte(total &sum, uint32_t word, int k, float weight)
	{
		sum += weight * (float)(word >> 8 * k & 255);
	}

	static __device__ __forceinline__ kept keep(total sum)
	{
		return sum;
	}

	static __device__ __forceinline__ total start(int32_t)
	{
		return 0;
	}

	static __device__ __forceinline__ void add(total &sum, kept value, float weight)
	{
		sum += weight * value;
	}

	static __device__ __forceinline__ float result(total sum, int32_t sampled)
	{
		return round_to(sum, sampled);
	}
};

/* Like struct real, for a source of float32: four floats instead of a word of four bytes. */
struct real_of_floats : real {
	using source = float;

	static __device__ __forceinline__ void add_byte(total &sum, const float4 &four, int k, float weight)
	{
		sum += weight * (k == 0 ? four.x : k == 1 ? four.y : k == 2 ? four.z : four.w);
	}
};

/* The intermediate values that one value of the source produces for TOGETHER rows. They are read and written as a whole in shared memory. */
template <typename K> struct __align__(TOGETHER * sizeof(typename K::kept)) quad
{
	typename K::kept row[TOGETHER];
};
template <typename K> struct __align__(16) columns
{
	quad<K> byte[4];
};

#endif
