/* SPDX-License-Identifier: Apache-2.0
 * Inverse DCT to 4x4, 2x2 and 1x1 samples in plain C, for images decoded at a fraction of their size. The results equal those of libjpeg's jidctred:
 * outputs of the transform of jpeg_idct.c, averaged over 2x2, 4x4 or 8x8 samples. Coefficients that cancel in the average are not used. Each pass shifts
 * its results right by more bits than in jpeg_idct.c: these bits are the division for the average. */
#include "kernel/jpeg/jpeg_idct.h"
#include "kernel/jpeg/jpeg_kernels.h"
#include "kernel/jpeg/jpeg_layout.h"

static int16_t dequantised(const int16_t *coefficients, const uint16_t *quant, int row, int column)
{
	int at = STK_JPEG_PLACE_C(row, column);
	return stk__idct_wrap((int32_t)((uint32_t)(uint16_t)coefficients[at] * quant[at]));
}

/* Transforms x[0] to x[7] to four outputs, which are rounded and shifted right by `shift` bits. x[4] does not affect them. */
static void transform_4(const int16_t x[8], int shift, int32_t out[4])
{
	int32_t t0 = x[0] * 16384 + (1 << (shift - 1)), t2 = stk__idct_dot(C1_847, x[2], -C0_765, x[6]);
	int32_t odd0 = stk__idct_sum(stk__idct_dot(-C0_211, x[7], C1_061, x[1]), stk__idct_dot(-C2_172, x[3], C1_451, x[5]));
	int32_t odd2 = stk__idct_sum(stk__idct_dot(-C0_509, x[7], C2_562, x[1]), stk__idct_dot(C0_899, x[3], -C0_601, x[5]));
	int32_t t10 = stk__idct_sum(t0, t2), t12 = stk__idct_difference(t0, t2);
	out[0] = stk__idct_sum(t10, odd2) >> shift;
	out[1] = stk__idct_sum(t12, odd0) >> shift;
	out[2] = stk__idct_difference(t12, odd0) >> shift;
	out[3] = stk__idct_difference(t10, odd2) >> shift;
}

/* Returns true if all coefficients below the first row are 0, except those of row 4, which have no effect. libjpeg-turbo then shifts without saturating. */
static bool flat_4(const int16_t *coefficients)
{
	for (int y = 1; y < 8; y++)
		for (int x = 0; x < 8 && y != 4; x++)
			if (coefficients[STK_JPEG_PLACE_C(y, x)])
				return false;
	return true;
}

static void block_4(const int16_t *coefficients, const uint16_t *quant, uint8_t *out, ptrdiff_t stride)
{
	int16_t rows[4][8];
	bool flat = flat_4(coefficients);
	for (int x = 0; x < 8; x++) {
		int16_t column[8];
		int32_t sums[4];
		for (int y = 0; y < 8; y++)
			column[y] = dequantised(coefficients, quant, y, x);
		transform_4(column, COLUMN_SHIFT + 1, sums);
		for (int y = 0; y < 4; y++)
			rows[y][x] = flat ? stk__idct_wrap(column[0] * 4) : stk__idct_saturate(sums[y]);
	}
	for (int y = 0; y < 4; y++) {
		int32_t sums[4];
		transform_4(rows[y], ROW_SHIFT + 1, sums);
		for (int x = 0; x < 4; x++)
			out[y * stride + x] = stk__idct_sample(sums[x]);
	}
}

void stk__jpeg_idct_4_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	block_4(pair, quant, out[0], stride[0]);
	block_4(pair + 8, quant + 8, out[1], stride[1]);
}

/* Returns what the coefficients 1, 3, 5 and 7 of a column or row, given as x[0] to x[3], add to its first output and subtract from its second. */
static int32_t odd_2(const int16_t x[4])
{
	return stk__idct_sum(stk__idct_dot(C3_624, x[0], -C1_272, x[1]), stk__idct_dot(C0_850, x[2], -C0_720, x[3]));
}

static void block_2(const int16_t *coefficients, const uint16_t *quant, uint8_t *out, ptrdiff_t stride)
{
	enum { FIRST = COLUMN_SHIFT + 2, SECOND = ROW_SHIFT + 2 };
	int32_t first[2] = {0}; /* column 0 of both output rows, which libjpeg-turbo does not saturate */
	int16_t rest[2][4];
	for (int i = 0; i < 5; i++) {
		int x = i == 0 ? 0 : 2 * i - 1;
		int16_t odd[4];
		for (int k = 0; k < 4; k++)
			odd[k] = dequantised(coefficients, quant, 2 * k + 1, x);
		int32_t even = dequantised(coefficients, quant, 0, x) * 32768 + (1 << (FIRST - 1)), other = odd_2(odd);
		int32_t a = stk__idct_sum(even, other) >> FIRST, b = stk__idct_difference(even, other) >> FIRST;
		if (i == 0) {
			first[0] = a;
			first[1] = b;
		} else {
			rest[0][i - 1] = stk__idct_saturate(a);
			rest[1][i - 1] = stk__idct_saturate(b);
		}
	}
	for (int y = 0; y < 2; y++) {
		uint32_t even = ((uint32_t)first[y] << 15) + (1u << (SECOND - 1)), other = (uint32_t)odd_2(rest[y]);
		out[y * stride] = stk__idct_sample((int32_t)(even + other) >> SECOND);
		out[y * stride + 1] = stk__idct_sample((int32_t)(even - other) >> SECOND);
	}
}

void stk__jpeg_idct_2_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	block_2(pair, quant, out[0], stride[0]);
	block_2(pair + 8, quant + 8, out[1], stride[1]);
}

void stk__jpeg_idct_1_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	(void)stride;
	for (int i = 0; i < 2; i++) {
		/* libjpeg clamps with a table of 1024 entries, so values outside of its range wrap around. */
		int32_t v = ((pair[8 * i] * (int16_t)quant[8 * i] + 4) >> 3) & 1023;
		*out[i] = stk__idct_sample(v < 512 ? v : v - 1024);
	}
}
