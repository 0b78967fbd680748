/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/jpeg/jpeg_kernels.h"

#include "kernel/jpeg/jpeg_layout.h"

static const uint8_t position_of[64] = {STK_JPEG_NATURAL(STK_JPEG_PLACE_C)};

void stk__jpeg_kernels_init(struct stk_jpeg_kernels *k, unsigned cpu)
{
	*k = (struct stk_jpeg_kernels){
		.position_of = position_of,
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
#ifdef STK_X86
	stk__jpeg_kernels_x86(k, cpu);
#elif defined(STK_ARM)
	stk__jpeg_kernels_arm(k, cpu);
#endif
	(void)cpu;
}
