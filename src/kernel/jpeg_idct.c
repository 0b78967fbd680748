/* SPDX-License-Identifier: Apache-2.0
 * Inverse DCT, plain C: Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications" (ICASSP 1989), with 13 bits
 * of fraction, as in libjpeg's jidctint. Sums of 16 bits wrap and results saturate where its SIMD versions do, so that damaged files look alike. */
#include "kernel/jpeg_idct.h"
#include "kernel/jpeg_kernels.h"

#include <string.h>

static int16_t wrap(int32_t v)
{
	return (int16_t)(uint16_t)v;
}

static int16_t saturate(int32_t v)
{
	return (int16_t)(v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : v);
}

static uint8_t sample(int32_t v)
{
	return (uint8_t)((v < -128 ? -128 : v > 127 ? 127 : v) + 128);
}

static int32_t dot(int32_t a, int32_t x, int32_t b, int32_t y)
{
	return (int32_t)((uint32_t)(a * x) + (uint32_t)(b * y));
}

static int32_t sum(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* Eight values at in[0], in[step], ... to out in the same way, scaled by 2^(13 - shift). */
static void transform(const int16_t *in, int16_t *out, int step, int shift)
{
	int16_t x[8];
	for (int i = 0; i < 8; i++)
		x[i] = in[i * step];
	int32_t round = 1 << (shift - 1);
	int32_t t0 = wrap(x[0] + x[4]) * 8192 + round, t1 = wrap(x[0] - x[4]) * 8192 + round;
	int32_t t2 = dot(C0_541, x[2], C0_541 - C1_847, x[6]), t3 = dot(C0_541 + C0_765, x[2], C0_541, x[6]);
	int32_t even[4] = {sum(t0, t3), sum(t1, t2), sum(t1, -t2), sum(t0, -t3)};
	int16_t s73 = wrap(x[7] + x[3]), s51 = wrap(x[5] + x[1]);
	int32_t z3 = dot(C1_175 - C1_961, s73, C1_175, s51), z4 = dot(C1_175, s73, C1_175 - C0_390, s51);
	int32_t odd[4] = {sum(dot(-C0_899, x[7], C1_501 - C0_899, x[1]), z4), sum(dot(-C2_562, x[5], C3_072 - C2_562, x[3]), z3),
		sum(dot(C2_053 - C2_562, x[5], -C2_562, x[3]), z4), sum(dot(C0_298 - C0_899, x[7], -C0_899, x[1]), z3)};
	for (int i = 0; i < 4; i++) {
		out[i * step] = saturate(sum(even[i], odd[i]) >> shift);
		out[(7 - i) * step] = saturate(sum(even[i], -odd[i]) >> shift);
	}
}

static void transform_block(const int16_t *coefficients, const uint16_t *quant, uint8_t *out, ptrdiff_t stride)
{
	int16_t v[64];
	bool flat = true; /* no column has AC terms: libjpeg-turbo then shifts without saturating */
	for (int y = 0; y < 8; y++)
		for (int x = 0; x < 8; x++) {
			uint32_t at = stk__jpeg_place(y, x);
			v[8 * y + x] = wrap((int32_t)((uint32_t)(uint16_t)coefficients[at] * quant[at]));
			flat &= y == 0 || coefficients[at] == 0;
		}
	for (int x = 0; x < 8; x++) {
		if (!flat) {
			transform(v + x, v + x, 8, COLUMN_SHIFT);
			continue;
		}
		for (int y = 7; y >= 0; y--)
			v[8 * y + x] = wrap(v[x] * 4);
	}
	for (int y = 0; y < 8; y++) {
		transform(v + 8 * y, v + 8 * y, 1, ROW_SHIFT);
		for (int x = 0; x < 8; x++)
			out[y * stride + x] = sample(v[8 * y + x]);
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
		int16_t dc = wrap(wrap((int32_t)((uint32_t)(uint16_t)pair[8 * i] * quant[8 * i])) * 4);
		uint8_t value = sample((dc + 16) >> 5);
		for (int y = 0; y < 8; y++)
			memset(out[i] + y * stride[i], value, 8);
	}
}
