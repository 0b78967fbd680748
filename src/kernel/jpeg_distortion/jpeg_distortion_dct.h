/* SPDX-License-Identifier: Apache-2.0
 * The transforms of jpeg_distortion.h. The including file defines STK_DCT_WORD, which is int32_t or a vector of int32_t with one block per lane, and
 * STK_DCT, which names the functions. */

/* Transforms 8 values that are `step` apart: C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications" (1989),
 * with 13 bits of fraction. shift: number of bits by which results are shifted right. The two results that need no multiplication are instead shifted left
 * by `up` bits and then right by `down`. */
STK_HD void STK_DCT(forward)(STK_DCT_WORD *v, int step, int up, int down, int shift)
{
	STK_DCT_WORD sum[4], gap[4];
	for (int i = 0; i < 4; i++) {
		sum[i] = v[i * step] + v[(7 - i) * step];
		gap[i] = v[i * step] - v[(7 - i) * step];
	}
	STK_DCT_WORD even = sum[0] + sum[3], odd = sum[1] + sum[2], outer = sum[0] - sum[3], inner = sum[1] - sum[2];
	int32_t round = down ? 1 << (down - 1) : 0, half = 1 << (shift - 1);
	v[0] = ((even + odd) * (1 << up) + round) >> down;
	v[4 * step] = ((even - odd) * (1 << up) + round) >> down;
	STK_DCT_WORD z = (outer + inner) * 4433;
	v[2 * step] = (z + outer * 6270 + half) >> shift;
	v[6 * step] = (z - inner * 15137 + half) >> shift;
	STK_DCT_WORD z1 = gap[3] + gap[0], z2 = gap[2] + gap[1], z3 = gap[3] + gap[1], z4 = gap[2] + gap[0], z5 = (z3 + z4) * 9633;
	z1 *= -7373;
	z2 *= -20995;
	z3 = z3 * -16069 + z5;
	z4 = z4 * -3196 + z5;
	v[7 * step] = (gap[3] * 2446 + z1 + z3 + half) >> shift;
	v[5 * step] = (gap[2] * 16819 + z2 + z4 + half) >> shift;
	v[3 * step] = (gap[1] * 25172 + z2 + z3 + half) >> shift;
	v[step] = (gap[0] * 12299 + z1 + z4 + half) >> shift;
}

/* Computes the inverse transform of 8 values that are `step` apart, and shifts the results right by `shift` bits. */
STK_HD void STK_DCT(inverse)(STK_DCT_WORD *v, int step, int shift)
{
	STK_DCT_WORD z = (v[2 * step] + v[6 * step]) * 4433, low = z - v[6 * step] * 15137, high = z + v[2 * step] * 6270;
	STK_DCT_WORD even = (v[0] + v[4 * step]) * 8192, odd = (v[0] - v[4 * step]) * 8192;
	int32_t half = 1 << (shift - 1);
	STK_DCT_WORD base[4] = {even + high, odd + low, odd - low, even - high};
	STK_DCT_WORD a = v[7 * step], b = v[5 * step], c = v[3 * step], d = v[step];
	STK_DCT_WORD z1 = a + d, z2 = b + c, z3 = a + c, z4 = b + d, z5 = (z3 + z4) * 9633;
	z1 *= -7373;
	z2 *= -20995;
	z3 = z3 * -16069 + z5;
	z4 = z4 * -3196 + z5;
	STK_DCT_WORD turn[4] = {d * 12299 + z1 + z4, c * 25172 + z2 + z3, b * 16819 + z2 + z4, a * 2446 + z1 + z3};
	for (int i = 0; i < 4; i++) {
		v[i * step] = (base[i] + turn[i] + half) >> shift;
		v[(7 - i) * step] = (base[i] - turn[i] + half) >> shift;
	}
}

#undef STK_DCT_WORD
#undef STK_DCT
