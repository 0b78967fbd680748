/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/rows/rows_template.h"

static void round_integer(float *restrict row, int32_t n, float low, float high)
{
	for (int32_t i = 0; i < n; i++)
		row[i] = round_one(row[i], low, high);
}

static void to_bfloat(uint16_t *restrict dst, const float *restrict src, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		dst[i] = stk__float_to_bfloat(src[i]);
}

static void to_half(uint16_t *restrict dst, const float *restrict src, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		dst[i] = stk__float_to_half(src[i]);
}

static void from_half(float *restrict dst, const uint16_t *restrict src, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		dst[i] = stk__half_to_float(src[i]);
}

static uint8_t round_byte(float x)
{
	return (uint8_t)round_one(x, 0, 255);
}

#define AFFINE_U8(name, type, convert)                                                                                                     \
	static void name(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,                     \
		const struct stk_affine *a, bool stream)                                                                                   \
	{                                                                                                                                  \
		(void)stream;                                                                                                              \
		for (int32_t r = 0; r < rows; r++) {                                                                                       \
			type *restrict out = (void *)((uint8_t *)dst + r * dst_row);                                                       \
			const uint8_t *restrict in = src + r * src_row;                                                                    \
			for (int32_t i = 0, k = 0; i < n; i++, k = k + 1 == STK_AFFINE_PERIOD ? 0 : k + 1)                                 \
				out[i] = convert((float)in[i] * a->scale[k] + a->bias[k]);                                                 \
		}                                                                                                                          \
	}
AFFINE_U8(affine_u8_float, float, )
AFFINE_U8(affine_u8_half, uint16_t, stk__float_to_half)
AFFINE_U8(affine_u8_bfloat, uint16_t, stk__float_to_bfloat)
AFFINE_U8(affine_u8_byte, uint8_t, round_byte)

#define LOAD_AS(type, convert)                                                                                                             \
	for (int32_t i = 0; i < n; i++, p += stride) {                                                                                     \
		type x;                                                                                                                    \
		memcpy(&x, p, sizeof x);                                                                                                   \
		dst[i] = convert(x);                                                                                                       \
	}                                                                                                                                  \
	break

void stk__row_load(float *dst, const void *src, ptrdiff_t stride, int32_t n, enum stk_dtype dtype)
{
	const uint8_t *p = src;
	switch (dtype) {
	case STK_UINT8:
		LOAD_AS(uint8_t, (float));
	case STK_BOOL:
		LOAD_AS(uint8_t, 0 !=);
	case STK_INT8:
		LOAD_AS(int8_t, (float));
	case STK_UINT16:
		LOAD_AS(uint16_t, (float));
	case STK_INT16:
		LOAD_AS(int16_t, (float));
	case STK_INT32:
		LOAD_AS(int32_t, (float));
	case STK_FLOAT16:
		LOAD_AS(uint16_t, stk__half_to_float);
	case STK_BFLOAT16:
		LOAD_AS(uint16_t, stk__bfloat_to_float);
	default:
		LOAD_AS(float, );
	}
}

const struct stk_row_kernels stk__row_kernels_c = {
	.load_u8 = load_u8_any,
	.affine_u8 = {affine_u8_float, affine_u8_half, affine_u8_bfloat, affine_u8_byte},
	.interleave = interleave_any,
	.widen_u8 = widen_u8,
	.affine = affine,
	.matrix = matrix,
	.gray = gray,
	.round = round_row,
	.store = store_row,
};

void stk__row_kernels_init(struct stk_row_kernels *k, unsigned cpu)
{
	*k = stk__row_kernels_c;
#ifdef STK_X86
	stk__row_kernels_x86(k, cpu);
#elif defined(STK_ARM)
	stk__row_kernels_arm(k, cpu);
#endif
	(void)cpu;
}
