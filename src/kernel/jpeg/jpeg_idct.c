/* SPDX-License-Identifier: Apache-2.0
 * Inverse DCT in plain C: Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications" (ICASSP 1989), with 13 bits of
 * fraction, as in libjpeg's jidctint. */
#include "kernel/jpeg/jpeg_idct.h"
#include "kernel/jpeg/jpeg_kernels.h"
#include "kernel/jpeg/jpeg_layout.h"

#include <string.h>

/* Transforms the eight values in[0], in[step], in[2 * step] and so on, and stores the results at the same indices of out, scaled by 2^(13 - shift). */
static void transform(const int16_t *in, int16_t *out, int step, int shift)
{
	int16_t x[8];
	for (int i = 0; i < 8; i++)
		x[i] = in[i * step];
	int32_t round = 1 << (shift - 1);
	int32_t t0 = stk__idct_wrap(x[0] + x[4]) * 8192 + round, t1 = stk__idct_wrap(x[0] - x[4]) * 8192 + round;
	int32_t t2 = stk__idct_dot(C0_541, x[2], C0_541 - C1_847, x[6]), t3 = stk__idct_dot(C0_541 + C0_765, x[2], C0_541, x[6]);
	int32_t even[4] = {stk__idct_sum(t0, t3), stk__idct_sum(t1, t2), stk__idct_difference(t1, t2), stk__idct_difference(t0, t3)};
	int16_t s73 = stk__idct_wrap(x[7] + x[3]), s51 = stk__idct_wrap(x[5] + x[1]);
	int32_t z3 = stk__idct_dot(C1_175 - C1_961, s73, C1_175, s51), z4 = stk__idct_dot(C1_175, s73, C1_175 - C0_390, s51);
	int32_t odd[4] = {stk__idct_sum(stk__idct_dot(-C0_899, x[7], C1_501 - C0_899, x[1]), z4),
		stk__idct_sum(stk__idct_dot(-C2_562, x[5], C3_072 - C2_562, x[3]), z3),
		stk__idct_sum(stk__idct_dot(C2_053 - C2_562, x[5], -C2_562, x[3]), z4),
		stk__idct_sum(stk__idct_dot(C0_298 - C0_899, x[7], -C0_899, x[1]), z3)};
	for (int i = 0; i < 4; i++) {
		out[i * step] = stk__idct_saturate(stk__idct_sum(even[i], odd[i]) >> shift);
		out[(7 - i) * step] = stk__idct_saturate(stk__idct_difference(even[i], odd[i]) >> shift);
	}
}

static void transform_block(const int16_t *coefficients, const uint16_t *quant, uint8_t *out, ptrdiff_t stride)
{
	int16_t v[64];
	bool flat = true; /* stays true if all coefficients below the first row are 0; libjpeg-turbo then shifts without saturating */
	for (int y = 0; y < 8; y++)
		for (int x = 0; x < 8; x++) {
			int at = STK_JPEG_PLACE_C(y, x);
			v[8 * y + x] = stk__idct_wrap((int32_t)((uint32_t)(uint16_t)coefficients[at] * quant[at]));
			flat &= y == 0 || coefficients[at] == 0;
		}
	for (int x = 0; x < 8; x++) {
		if (!flat) {
			transform(v + x, v + x, 8, COLUMN_SHIFT);
			continue;
		}
		for (int y = 7; y >= 0; y--)
			v[8 * y + x] = stk__idct_wrap(v[x] * 4);
	}
	for (int y = 0; y < 8; y++) {
		transform(v + 8 * y, v + 8 * y, 1, ROW_SHIFT);
		for (int x = 0; x < 8; x++)
			out[y * stride + x] = stk__idct_sample(v[8 * y + x]);
	}
}

void stk__jpeg_idct_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	transform_block(pair, quant, out[0], stride[0]);
	transform_block(pair + 8, quant + 8, out[1], stride[1]);
}

void stk__jpeg_idct_flat_c(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	for (int i = 0; i < 2; i++) {
		int16_t dc = stk__idct_wrap(stk__idct_wrap((int32_t)((uint32_t)(uint16_t)pair[8 * i] * quant[8 * i])) * 4);
		uint8_t value = stk__idct_sample((dc + 16) >> 5);
		for (int y = 0; y < 8; y++)
			memset(out[i] + y * stride[i], value, 8);
	}
}
