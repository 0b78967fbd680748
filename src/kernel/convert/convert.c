/* SPDX-License-Identifier: Apache-2.0
 * Converts elements. Common pairs of types have direct loops. Of the others, 64-bit integers are converted from their own type, and all other types through
 * double, which holds them exactly. */
#include "kernel/convert/convert.h"

#include "kernel/convert/convert_one.h"

#define CHUNK 256

#define UNPACK(type, convert)                                                                                                              \
	for (int i = 0; i < n; i++)                                                                                                        \
		out[i] = convert(((const type *)src)[i]);                                                                                  \
	break

/* Converts n elements of type dtype to double. dtype: any type except the 64-bit integers. */
static void to_double(double *restrict out, const void *src, enum stk_dtype dtype, int n)
{
	switch (dtype) {
	case STK_UINT8:
		UNPACK(uint8_t, );
	case STK_BOOL:
		UNPACK(uint8_t, 0 !=);
	case STK_INT8:
		UNPACK(int8_t, );
	case STK_UINT16:
		UNPACK(uint16_t, );
	case STK_INT16:
		UNPACK(int16_t, );
	case STK_UINT32:
		UNPACK(uint32_t, );
	case STK_INT32:
		UNPACK(int32_t, );
	case STK_FLOAT16:
		UNPACK(uint16_t, (double)stk__half_to_float);
	case STK_BFLOAT16:
		UNPACK(uint16_t, (double)stk__bfloat_to_float);
	case STK_FLOAT:
		UNPACK(float, (double));
	default:
		UNPACK(double, );
	}
}

#define PACK(type, expression)                                                                                                             \
	for (int i = 0; i < n; i++) {                                                                                                      \
		double x = in[i];                                                                                                          \
		((type *)dst)[i] = (type)(expression);                                                                                     \
	}                                                                                                                                  \
	break
#define PACK_INTEGER(type, low, high) PACK(type, x == x ? stk__nearest(x, low, high) : 0)

/* Packs like PACK, for unsigned types that int32 holds, without a branch. NaN becomes 0, since its comparison with 0 is false too. Before the fraction is
 * cut off, the largest double below 0.5 is added: so only fractions of at least a half round up. */
#define PACK_UNSIGNED(type, high)                                                                                                          \
	for (int i = 0; i < n; i++) {                                                                                                      \
		double x = in[i] > 0 ? in[i] : 0;                                                                                          \
		x = x < (high) ? x : (high);                                                                                               \
		((type *)dst)[i] = (type)(int32_t)(x + 0x1.fffffffffffffp-2);                                                              \
	}                                                                                                                                  \
	break

static void from_double(void *dst, enum stk_dtype dtype, const double *restrict in, int n)
{
	switch (dtype) {
	case STK_UINT8:
		PACK_UNSIGNED(uint8_t, UINT8_MAX);
	case STK_INT8:
		PACK_INTEGER(int8_t, INT8_MIN, INT8_MAX);
	case STK_UINT16:
		PACK_UNSIGNED(uint16_t, UINT16_MAX);
	case STK_INT16:
		PACK_INTEGER(int16_t, INT16_MIN, INT16_MAX);
	case STK_UINT32:
		PACK_INTEGER(uint32_t, 0, UINT32_MAX);
	case STK_INT32:
		PACK_INTEGER(int32_t, INT32_MIN, INT32_MAX);
	case STK_UINT64:
		PACK(uint64_t, stk__nearest_uint64(x));
	case STK_INT64:
		PACK(int64_t, stk__nearest_int64(x));
	case STK_BOOL:
		PACK(uint8_t, stk__nearest_bool(x));
	case STK_FLOAT16:
		PACK(uint16_t, stk__float_to_half((float)x));
	case STK_BFLOAT16:
		PACK(uint16_t, stk__float_to_bfloat((float)x));
	case STK_FLOAT:
		PACK(float, x);
	default:
		PACK(double, x);
	}
}

#define WIDEN(type)                                                                                                                        \
	for (int64_t i = 0; i < n; i++)                                                                                                    \
		((int64_t *)dst)[i] = ((const type *)src)[i];                                                                              \
	break

/* Converts n elements from smaller integer types to int64. Returns false, and does nothing, if `from` is another type. */
static bool widen(void *restrict dst, const void *restrict src, enum stk_dtype from, int64_t n)
{
	switch (from) {
	case STK_UINT8:
		WIDEN(uint8_t);
	case STK_INT8:
		WIDEN(int8_t);
	case STK_UINT16:
		WIDEN(uint16_t);
	case STK_INT16:
		WIDEN(int16_t);
	case STK_UINT32:
		WIDEN(uint32_t);
	case STK_INT32:
		WIDEN(int32_t);
	default:
		return false;
	}
	return true;
}

#define NARROW(type, low, high)                                                                                                            \
	for (int64_t i = 0; i < n; i++) {                                                                                                  \
		int64_t x = ((const int64_t *)src)[i];                                                                                     \
		((type *)dst)[i] = (type)(x < (low) ? (low) : x > (high) ? (high) : x);                                                    \
	}                                                                                                                                  \
	break

/* Converts n elements from int64 to smaller integer types, saturating. Returns false, and does nothing, if `to` is another type. */
static bool narrow(void *restrict dst, enum stk_dtype to, const void *restrict src, int64_t n)
{
	switch (to) {
	case STK_UINT8:
		NARROW(uint8_t, 0, UINT8_MAX);
	case STK_INT8:
		NARROW(int8_t, INT8_MIN, INT8_MAX);
	case STK_UINT16:
		NARROW(uint16_t, 0, UINT16_MAX);
	case STK_INT16:
		NARROW(int16_t, INT16_MIN, INT16_MAX);
	case STK_UINT32:
		NARROW(uint32_t, 0, UINT32_MAX);
	case STK_INT32:
		NARROW(int32_t, INT32_MIN, INT32_MAX);
	default:
		return false;
	}
	return true;
}

/* Converts n elements with a loop for this pair of types. Returns false, and does nothing, if there is no such loop. */
static bool direct(void *restrict dst, enum stk_dtype to, const void *restrict src, enum stk_dtype from, int64_t n)
{
	if (to == from && to != STK_BOOL)
		memcpy(dst, src, (size_t)n * stk_dtype_size(to));
	else if (to == STK_FLOAT && from == STK_UINT8)
		for (int64_t i = 0; i < n; i++)
			((float *)dst)[i] = ((const uint8_t *)src)[i];
	else if (to == STK_BFLOAT16 && from == STK_FLOAT)
		for (int64_t i = 0; i < n; i++)
			((uint16_t *)dst)[i] = stk__float_to_bfloat(((const float *)src)[i]);
	else if (to == STK_INT64)
		return widen(dst, src, from, n);
	else
		return from == STK_INT64 && narrow(dst, to, src, n);
	return true;
}

void stk__convert(void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n)
{
	if (n == 1) { /* a label or an argument: no loop is needed */
		stk__convert_one(dst, dst_dtype, src, src_dtype);
		return;
	}
	if (n <= 0 || direct(dst, dst_dtype, src, src_dtype, n))
		return;
	size_t to_size = stk_dtype_size(dst_dtype), from_size = stk_dtype_size(src_dtype);
	if (src_dtype == STK_INT64 || src_dtype == STK_UINT64) {
		const uint64_t *bits = src;
		for (int64_t i = 0; i < n; i++)
			stk__store_integer(
				(uint8_t *)dst + (size_t)i * to_size, dst_dtype, bits[i], src_dtype == STK_INT64 && bits[i] >> 63);
		return;
	}
	double buffer[CHUNK];
	for (int64_t i = 0; i < n; i += CHUNK) {
		int count = n - i < CHUNK ? (int)(n - i) : CHUNK;
		const uint8_t *x = (const uint8_t *)src + (size_t)i * from_size;
		uint8_t *y = (uint8_t *)dst + (size_t)i * to_size;
		double *values = dst_dtype == STK_FLOAT64 ? (double *)(void *)y : buffer;
		if (src_dtype != STK_FLOAT64)
			to_double(values, x, src_dtype, count);
		if (dst_dtype != STK_FLOAT64)
			from_double(y, dst_dtype, src_dtype == STK_FLOAT64 ? (const double *)(const void *)x : values, count);
	}
}
