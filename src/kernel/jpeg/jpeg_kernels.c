/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/jpeg/jpeg_kernels.h"

#include "base/cpu.h"

static const struct stk_jpeg_kernels plain = {
	.unstuff = stk__jpeg_unstuff_c,
	.decode = stk__jpeg_decode_c,
	.skip = stk__jpeg_skip_c,
	.band_first = stk__jpeg_band_first_c,
	.band_refine = stk__jpeg_band_refine_c,
	.dc_first = stk__jpeg_dc_first_c,
	.take_bits = stk__jpeg_take_bits_c,
	.idct = stk__jpeg_idct_c,
	.idct_flat = stk__jpeg_idct_flat_c,
	.idct_small = {stk__jpeg_idct_1_c, stk__jpeg_idct_2_c, stk__jpeg_idct_4_c},
	.upsample_h2v1 = stk__jpeg_upsample_h2v1_c,
	.upsample_h2v2 = stk__jpeg_upsample_h2v2_c,
	.upsample_h1v2 = stk__jpeg_upsample_h1v2_c,
	.ycc_to_rgb = stk__jpeg_ycc_to_rgb_c,
	.interleave = stk__jpeg_interleave_c,
};

#if defined(__x86_64__)
static const struct stk_jpeg_kernels avx2 = {
	.unstuff = stk__jpeg_unstuff_avx2,
	.decode = stk__jpeg_decode_avx2,
	.skip = stk__jpeg_skip_avx2,
	.band_first = stk__jpeg_band_first_avx2,
	.band_refine = stk__jpeg_band_refine_avx2,
	.dc_first = stk__jpeg_dc_first_avx2,
	.take_bits = stk__jpeg_take_bits_avx2,
	.idct = stk__jpeg_idct_avx2,
	.idct_flat = stk__jpeg_idct_flat_c,
	.idct_small = {stk__jpeg_idct_1_c, stk__jpeg_idct_2_avx2, stk__jpeg_idct_4_avx2},
	.upsample_h2v1 = stk__jpeg_upsample_h2v1_avx2,
	.upsample_h2v2 = stk__jpeg_upsample_h2v2_avx2,
	.upsample_h1v2 = stk__jpeg_upsample_h1v2_avx2,
	.ycc_to_rgb = stk__jpeg_ycc_to_rgb_avx2,
	.interleave = stk__jpeg_interleave_avx2,
};
#endif

const struct stk_jpeg_kernels *stk__jpeg_kernels(int cpu_level)
{
#if defined(__x86_64__)
	if (cpu_level >= STK_CPU_AVX2)
		return &avx2;
#endif
	(void)cpu_level;
	return &plain;
}
