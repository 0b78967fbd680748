/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the AVX2 inverse DCTs share. These transform two blocks, one in each half of a register.
 *
 * The instruction that does most of the work multiplies adjacent words and adds the two products. So values whose products are added are in adjacent words:
 * rows 0 4, 2 6, 7 1, 3 5. Coefficients are stored in that order (jpeg_layout.h). Their columns are in the same order, so transposing double words after
 * the first pass produces that order for the second. On most processors shuffles and shifts share two of four execution ports, so avoiding them is what
 * makes this code fast. */
#ifndef STK_KERNEL_JPEG_IDCT_AVX2_H
#define STK_KERNEL_JPEG_IDCT_AVX2_H

#include "kernel/jpeg/jpeg_idct.h"

#include "kernel/common/avx2.h"

#define STK__IDCT_INLINE static inline __attribute__((always_inline))

/* Returns, for each double word of v, a times its even (low) word plus b times its odd word. */
STK__IDCT_INLINE __m256i stk__idct_dot_avx2(__m256i v, int a, int b)
{
	return _mm256_madd_epi16(v, _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)(uint16_t)b << 16)));
}

/* Transposes four rows of 8 columns, whose columns are in the order 0 4 2 6 7 1 3 5, to pairs of rows. */
STK__IDCT_INLINE void stk__idct_transpose_pairs(const __m256i rows[4], __m256i pairs[4])
{
	__m256i a = _mm256_unpacklo_epi32(rows[0], rows[1]), b = _mm256_unpacklo_epi32(rows[2], rows[3]);
	__m256i c = _mm256_unpackhi_epi32(rows[0], rows[1]), d = _mm256_unpackhi_epi32(rows[2], rows[3]);
	pairs[0] = _mm256_unpacklo_epi64(a, b);
	pairs[1] = _mm256_unpackhi_epi64(a, b);
	pairs[2] = _mm256_unpacklo_epi64(c, d);
	pairs[3] = _mm256_unpackhi_epi64(c, d);
}

/* Sets the n rows of flat blocks, in which no coefficient below the first row has an effect, to the first row shifted left by 2 bits, without saturating,
 * as in libjpeg-turbo's first pass. flat: mask of the flat blocks; the low words of the double words of x[0] and x[1] are the first row. */
STK__IDCT_INLINE void stk__idct_replace_flat(__m256i flat, const __m256i *x, __m256i *rows, const int n)
{
	__m256i low = _mm256_srai_epi32(_mm256_slli_epi32(x[0], 18), 16), high = _mm256_srai_epi32(_mm256_slli_epi32(x[1], 18), 16);
	__m256i first = _mm256_packs_epi32(low, high);
	for (int i = 0; i < n; i++)
		rows[i] = _mm256_blendv_epi8(rows[i], first, flat);
}

#endif
