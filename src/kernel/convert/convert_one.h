/* SPDX-License-Identifier: Apache-2.0
 * Converts single elements by the rules of convert.h, in C and CUDA. 64-bit integers are converted from their own type, other types through double, which holds
 * them exactly. A NaN becomes some NaN if the output's type has NaNs. */
#ifndef STK_KERNEL_CONVERT_ONE_H
#define STK_KERNEL_CONVERT_ONE_H

#include "kernel/convert/half.h"
#include "stoker/tensor.h"

/* Returns x rounded to nearest, halves away from zero, and clamped to low .. high. x may be infinite, but not NaN. */
STK_HD double stk__nearest(double x, double low, double high)
{
	x = x > low ? x : low;
	x = x < high ? x : high;
	double whole = (double)(int64_t)x, part = x - whole;
	return part >= 0.5 ? whole + 1 : part <= -0.5 ? whole - 1 : whole;
}

/* Return x rounded to the nearest 64-bit integer, halves away from zero, and saturated; 0 for NaN. */
STK_HD int64_t stk__nearest_int64(double x)
{
	if (!(x == x))
		return 0;
	if (x >= 0x1p63)
		return INT64_MAX;
	return x <= -0x1p63 ? INT64_MIN : (int64_t)stk__nearest(x, -0x1p63, 0x1.fffffffffffffp62);
}

STK_HD uint64_t stk__nearest_uint64(double x)
{
	if (!(x > 0))
		return 0;
	if (x >= 0x1p64)
		return UINT64_MAX;
	return x >= 0x1p62 ? (uint64_t)x : (uint64_t)stk__nearest(x, 0, 0x1p62);
}

/* Returns whether the nearest integer is not 0. Returns false for NaN, which is converted to the integer 0. */
STK_HD bool stk__nearest_bool(double x)
{
	return x >= 0.5 || x <= -0.5;
}

/* Returns the element at `src`, whose type must not be a 64-bit integer. */
STK_HD double stk__load_double(const void *src, int dtype)
{
	switch (dtype) {
	case STK_UINT8:
		return *(const uint8_t *)src;
	case STK_BOOL:
		return *(const uint8_t *)src != 0;
	case STK_INT8:
		return *(const int8_t *)src;
	case STK_UINT16:
		return *(const uint16_t *)src;
	case STK_INT16:
		return *(const int16_t *)src;
	case STK_UINT32:
		return *(const uint32_t *)src;
	case STK_INT32:
		return *(const int32_t *)src;
	case STK_FLOAT16:
		return (double)stk__half_to_float(*(const uint16_t *)src);
	case STK_BFLOAT16:
		return (double)stk__bfloat_to_float(*(const uint16_t *)src);
	case STK_FLOAT:
		return (double)*(const float *)src;
	default:
		return *(const double *)src;
	}
}

#define STK__STORE_NEAREST(type, low, high) *(type *)dst = (type)(x == x ? stk__nearest(x, low, high) : 0)

STK_HD void stk__store_double(void *dst, int dtype, double x)
{
	switch (dtype) {
	case STK_UINT8:
		STK__STORE_NEAREST(uint8_t, 0, UINT8_MAX);
		break;
	case STK_INT8:
		STK__STORE_NEAREST(int8_t, INT8_MIN, INT8_MAX);
		break;
	case STK_UINT16:
		STK__STORE_NEAREST(uint16_t, 0, UINT16_MAX);
		break;
	case STK_INT16:
		STK__STORE_NEAREST(int16_t, INT16_MIN, INT16_MAX);
		break;
	case STK_UINT32:
		STK__STORE_NEAREST(uint32_t, 0, UINT32_MAX);
		break;
	case STK_INT32:
		STK__STORE_NEAREST(int32_t, INT32_MIN, INT32_MAX);
		break;
	case STK_UINT64:
		*(uint64_t *)dst = stk__nearest_uint64(x);
		break;
	case STK_INT64:
		*(int64_t *)dst = stk__nearest_int64(x);
		break;
	case STK_BOOL:
		*(uint8_t *)dst = stk__nearest_bool(x);
		break;
	case STK_FLOAT16:
		*(uint16_t *)dst = stk__float_to_half((float)x);
		break;
	case STK_BFLOAT16:
		*(uint16_t *)dst = stk__float_to_bfloat((float)x);
		break;
	case STK_FLOAT:
		*(float *)dst = (float)x;
		break;
	default:
		*(double *)dst = x;
	}
}

#define STK__STORE_INTEGER(type, low, high)                                                                                                \
	*(type *)dst = (type)(negative ? ((int64_t)bits < (int64_t)(low) ? (int64_t)(low) : (int64_t)bits)                                 \
				       : (int64_t)(bits > (uint64_t)(high) ? (high) : bits))

/* Converts a 64-bit integer to dtype and stores it. bits: the integer, as int64 in two's complement if it is negative, otherwise as uint64. */
STK_HD void stk__store_integer(void *dst, int dtype, uint64_t bits, bool negative)
{
	float single = negative ? (float)(int64_t)bits : (float)bits;
	switch (dtype) {
	case STK_UINT8:
		STK__STORE_INTEGER(uint8_t, 0, UINT8_MAX);
		break;
	case STK_INT8:
		STK__STORE_INTEGER(int8_t, INT8_MIN, INT8_MAX);
		break;
	case STK_UINT16:
		STK__STORE_INTEGER(uint16_t, 0, UINT16_MAX);
		break;
	case STK_INT16:
		STK__STORE_INTEGER(int16_t, INT16_MIN, INT16_MAX);
		break;
	case STK_UINT32:
		STK__STORE_INTEGER(uint32_t, 0, UINT32_MAX);
		break;
	case STK_INT32:
		STK__STORE_INTEGER(int32_t, INT32_MIN, INT32_MAX);
		break;
	case STK_INT64:
		STK__STORE_INTEGER(int64_t, INT64_MIN, INT64_MAX);
		break;
	case STK_UINT64:
		*(uint64_t *)dst = negative ? 0 : bits;
		break;
	case STK_BOOL:
		*(uint8_t *)dst = bits != 0;
		break;
	case STK_FLOAT16:
		*(uint16_t *)dst = stk__float_to_half(single);
		break;
	case STK_BFLOAT16:
		*(uint16_t *)dst = stk__float_to_bfloat(single);
		break;
	case STK_FLOAT:
		*(float *)dst = single;
		break;
	default:
		*(double *)dst = negative ? (double)(int64_t)bits : (double)bits;
	}
}

STK_HD void stk__convert_one(void *dst, int dst_dtype, const void *src, int src_dtype)
{
	if (src_dtype == STK_INT64 || src_dtype == STK_UINT64) {
		uint64_t bits = *(const uint64_t *)src;
		stk__store_integer(dst, dst_dtype, bits, src_dtype == STK_INT64 && bits >> 63);
	} else {
		stk__store_double(dst, dst_dtype, stk__load_double(src, src_dtype));
	}
}

#endif
