/* SPDX-License-Identifier: Apache-2.0
 * Functions that the CPU's loops and the CUDA kernels share: they read indices, sizes and floats of any type, and convert 16-bit floats. */
#ifndef STK_RAGGED_ITEMS_H
#define STK_RAGGED_ITEMS_H

#include "stoker/tensor.h"

#include <string.h>

#if defined(__CUDACC__)
#define STK_BOTH __host__ __device__ __forceinline__
#else
#define STK_BOTH inline
#endif

static STK_BOTH int64_t stk__load_index(const void *p, int32_t bytes, int64_t i)
{
	return bytes == 8 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

/* Returns the position that an index refers to among `size` items (negative ones count from the end), or -1 if it is out of range. */
static STK_BOTH int64_t stk__resolve(int64_t index, int64_t size)
{
	if (index < 0)
		index += size;
	return index >= 0 && index < size ? index : -1;
}

/* Returns how many of the `extent` items of sample b are used: sizes[b], limited to 0 .. extent, or all if sizes is NULL. */
static STK_BOTH int64_t stk__size_of(const int64_t *sizes, int64_t b, int64_t extent)
{
	if (!sizes)
		return extent;
	int64_t n = sizes[b];
	return n < 0 ? 0 : n > extent ? extent : n;
}

static STK_BOTH float stk__bits_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static STK_BOTH uint32_t stk__float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* Converts IEEE 754 binary16 to float. A subnormal number is a small integer times 2^-24. */
static STK_BOTH float stk__half_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
	if (exponent == 0) {
		float f = (float)mantissa * 5.9604644775390625e-8f;
		return sign ? -f : f;
	}
	return stk__bits_float(exponent == 31 ? sign | 0x7f800000u | mantissa << 13 : sign | (exponent + 112) << 23 | mantissa << 13);
}

/* Converts a float to IEEE 754 binary16: rounds to nearest, ties to even. From 65520 on, the result is infinity. */
static STK_BOTH uint16_t stk__float_to_half(float f)
{
	uint32_t u = stk__float_bits(f), sign = (u >> 16) & 0x8000;
	u &= 0x7fffffffu;
	if (u > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00);
	if (u >= 0x477ff000u)
		return (uint16_t)(sign | 0x7c00);
	if (u < 0x38800000u) { /* subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits */
		float shifted = stk__bits_float(u) + 0.5f;
		return (uint16_t)(sign | (stk__float_bits(shifted) - 0x3f000000u));
	}
	u += 0xc8000fffu + ((u >> 13) & 1);
	return (uint16_t)(sign | u >> 13);
}

static STK_BOTH float stk__bfloat_to_float(uint16_t h)
{
	return stk__bits_float((uint32_t)h << 16);
}

static STK_BOTH uint16_t stk__float_to_bfloat(float f)
{
	uint32_t u = stk__float_bits(f);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 | 64);
	return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static STK_BOTH float stk__load_float(const void *p, int32_t dtype, int64_t i)
{
	switch (dtype) {
	case STK_FLOAT:
		return ((const float *)p)[i];
	case STK_FLOAT16:
		return stk__half_to_float(((const uint16_t *)p)[i]);
	case STK_BFLOAT16:
		return stk__bfloat_to_float(((const uint16_t *)p)[i]);
	default:
		return (float)((const double *)p)[i];
	}
}

static STK_BOTH double stk__load_double(const void *p, int32_t dtype, int64_t i)
{
	return dtype == STK_FLOAT64 ? ((const double *)p)[i] : (double)stk__load_float(p, dtype, i);
}

static STK_BOTH void stk__store_float(void *p, int32_t dtype, int64_t i, double v)
{
	switch (dtype) {
	case STK_FLOAT:
		((float *)p)[i] = (float)v;
		break;
	case STK_FLOAT16:
		((uint16_t *)p)[i] = stk__float_to_half((float)v);
		break;
	case STK_BFLOAT16:
		((uint16_t *)p)[i] = stk__float_to_bfloat((float)v);
		break;
	default:
		((double *)p)[i] = v;
	}
}

#endif
