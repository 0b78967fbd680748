/* SPDX-License-Identifier: Apache-2.0
 * Inverse DCT of two blocks to 4x4 and 2x2 samples, with the arithmetic of jpeg_idct_small.c. See jpeg_idct_avx2.h for the order of values. */
#include "kernel/jpeg/jpeg_idct_avx2.h"
#include "kernel/jpeg/jpeg_kernels.h"

#include <string.h>

/* Transforms four columns. x04, x26, x71 and x35: pairs of rows, of which row 4 has no effect. out: four rows, rounded and shifted right by `shift` bits. */
STK__IDCT_INLINE void transform(__m256i x04, __m256i x26, __m256i x71, __m256i x35, const int shift, __m256i out[4])
{
	__m256i t0 = _mm256_add_epi32(stk__idct_dot_avx2(x04, 16384, 0), _mm256_set1_epi32(1 << (shift - 1)));
	__m256i t2 = stk__idct_dot_avx2(x26, C1_847, -C0_765);
	__m256i odd0 = _mm256_add_epi32(stk__idct_dot_avx2(x71, -C0_211, C1_061), stk__idct_dot_avx2(x35, -C2_172, C1_451));
	__m256i odd2 = _mm256_add_epi32(stk__idct_dot_avx2(x71, -C0_509, C2_562), stk__idct_dot_avx2(x35, C0_899, -C0_601));
	__m256i t10 = _mm256_add_epi32(t0, t2), t12 = _mm256_sub_epi32(t0, t2);
	out[0] = _mm256_srai_epi32(_mm256_add_epi32(t10, odd2), shift);
	out[1] = _mm256_srai_epi32(_mm256_add_epi32(t12, odd0), shift);
	out[2] = _mm256_srai_epi32(_mm256_sub_epi32(t12, odd0), shift);
	out[3] = _mm256_srai_epi32(_mm256_sub_epi32(t10, odd2), shift);
}

/* Returns a register in which each half has all bits set if all coefficients of its block below the first row are 0, apart from row 4, which has no effect.
 * Otherwise the half has no bits set. */
STK__IDCT_INLINE __m256i flat_halves(const __m256i *coefficients)
{
	__m256i ac = coefficients[2];
	for (int i = 3; i < 8; i++)
		ac = _mm256_or_si256(ac, coefficients[i]);
	__m256i zero = _mm256_cmpeq_epi64(ac, _mm256_setzero_si256());
	return _mm256_and_si256(zero, _mm256_shuffle_epi32(zero, _MM_SHUFFLE(1, 0, 3, 2)));
}

/* Stores four columns of 4 samples in double words as rows of bytes, row y of block i at out[i] + y * stride[i]. */
STK__IDCT_INLINE void store_columns(const __m256i x[4], uint8_t *const out[2], const ptrdiff_t stride[2])
{
	const __m256i shuffle = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	__m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]));
	bytes = _mm256_shuffle_epi8(_mm256_add_epi8(bytes, _mm256_set1_epi8(-128)), shuffle);
	for (int i = 0; i < 2; i++) {
		__m128i rows = i ? _mm256_extracti128_si256(bytes, 1) : _mm256_castsi256_si128(bytes);
		_mm_storeu_si32(out[i], rows);
		_mm_storeu_si32(out[i] + stride[i], _mm_srli_si128(rows, 4));
		_mm_storeu_si32(out[i] + 2 * stride[i], _mm_srli_si128(rows, 8));
		_mm_storeu_si32(out[i] + 3 * stride[i], _mm_srli_si128(rows, 12));
	}
}

void stk__jpeg_idct_4_avx2(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	const __m256i *c = (const __m256i *)pair, *q = (const __m256i *)quant;
	__m256i x[8], low[4], high[4], rows[4], flat = flat_halves(c);
	for (int i = 0; i < 8; i++)
		x[i] = _mm256_mullo_epi16(c[i], q[i]);
	transform(x[0], x[2], x[4], x[6], COLUMN_SHIFT + 1, low);
	transform(x[1], x[3], x[5], x[7], COLUMN_SHIFT + 1, high);
	for (int i = 0; i < 4; i++)
		rows[i] = _mm256_packs_epi32(low[i], high[i]);
	if (!_mm256_testz_si256(flat, flat))
		stk__idct_replace_flat(flat, x, rows, 4);
	stk__idct_transpose_pairs(rows, x);
	transform(x[0], x[1], x[2], x[3], ROW_SHIFT + 1, low);
	store_columns(low, out, stride);
}

/* Transforms four columns to two rows, which are rounded and shifted right by SHIFT bits. x04, x71 and x35: pairs of rows, of which row 4 has no effect. */
STK__IDCT_INLINE void transform_2(__m256i x04, __m256i x71, __m256i x35, __m256i out[2])
{
	enum { SHIFT = COLUMN_SHIFT + 2 };
	__m256i even = _mm256_add_epi32(_mm256_srai_epi32(_mm256_slli_epi32(x04, 16), 1), _mm256_set1_epi32(1 << (SHIFT - 1)));
	__m256i odd = _mm256_add_epi32(stk__idct_dot_avx2(x71, -C0_720, C3_624), stk__idct_dot_avx2(x35, -C1_272, C0_850));
	out[0] = _mm256_srai_epi32(_mm256_add_epi32(even, odd), SHIFT);
	out[1] = _mm256_srai_epi32(_mm256_sub_epi32(even, odd), SHIFT);
}

/* Transforms a pair of blocks to 2x2 samples. Only five columns have an effect: column 0, which is the first of four in each half of one vector, and columns
 * 7 1 3 5, which are in the other vector. */
void stk__jpeg_idct_2_avx2(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	enum { SHIFT = ROW_SHIFT + 2 };
	const __m256i *c = (const __m256i *)pair, *q = (const __m256i *)quant;
	const __m256i weights =
		_mm256_broadcastsi128_si256(_mm_setr_epi16(-C0_720, C3_624, -C1_272, C0_850, -C0_720, C3_624, -C1_272, C0_850));
	__m256i x[8], first[2], rest[2];
	for (int i = 0; i < 8; i++)
		x[i] = _mm256_mullo_epi16(c[i], q[i]);
	transform_2(x[0], x[4], x[6], first);
	transform_2(x[1], x[5], x[7], rest);
	__m256i even =
		_mm256_add_epi32(_mm256_slli_epi32(_mm256_unpacklo_epi32(first[0], first[1]), 15), _mm256_set1_epi32(1 << (SHIFT - 1)));
	__m256i odd = _mm256_madd_epi16(_mm256_packs_epi32(rest[0], rest[1]), weights);
	odd = _mm256_hadd_epi32(odd, odd); /* the odd parts of both rows */
	__m256i left = _mm256_srai_epi32(_mm256_add_epi32(even, odd), SHIFT), right = _mm256_srai_epi32(_mm256_sub_epi32(even, odd), SHIFT);
	__m256i words = _mm256_packs_epi32(_mm256_unpacklo_epi32(left, right), _mm256_setzero_si256());
	__m256i bytes = _mm256_add_epi8(_mm256_packs_epi16(words, words), _mm256_set1_epi8(-128));
	for (int i = 0; i < 2; i++) {
		uint32_t rows = (uint32_t)_mm_cvtsi128_si32(i ? _mm256_extracti128_si256(bytes, 1) : _mm256_castsi256_si128(bytes));
		memcpy(out[i], &rows, 2);
		rows >>= 16;
		memcpy(out[i] + stride[i], &rows, 2);
	}
}
