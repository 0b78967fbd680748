/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/jpeg/jpeg_kernels.h"
#include "kernel/jpeg/jpeg_layout.h"

static const uint8_t position_of[64] = {STK_JPEG_NATURAL(STK_JPEG_PLACE_AVX2)};

void stk__jpeg_kernels_avx2(struct stk_jpeg_kernels *k)
{
	/* These functions depend on the same layout, so they are only set together. idct_flat and idct_small[0] read only DC coefficients, which are at the
	 * same position in any layout. */
	k->position_of = position_of;
	k->decode = stk__jpeg_decode_avx2;
	k->band_first = stk__jpeg_band_first_avx2;
	k->band_refine = stk__jpeg_band_refine_avx2;
	k->idct = stk__jpeg_idct_avx2;
	k->idct_small[1] = stk__jpeg_idct_2_avx2;
	k->idct_small[2] = stk__jpeg_idct_4_avx2;

	k->unstuff = stk__jpeg_unstuff_avx2;
	k->skip = stk__jpeg_skip_avx2;
	k->dc_first = stk__jpeg_dc_first_avx2;
	k->take_bits = stk__jpeg_take_bits_avx2;
	k->upsample_h2v1 = stk__jpeg_upsample_h2v1_avx2;
	k->upsample_h2v2 = stk__jpeg_upsample_h2v2_avx2;
	k->upsample_h1v2 = stk__jpeg_upsample_h1v2_avx2;
	k->ycc_to_rgb = stk__jpeg_ycc_to_rgb_avx2;
	k->interleave = stk__jpeg_interleave_avx2;
}
