/* SPDX-License-Identifier: Apache-2.0
 * Inverse DCT of two blocks, one in each half of a register, with the arithmetic of jpeg_idct.c. See jpeg_idct_avx2.h for the order of values. */
#include "kernel/jpeg/jpeg_idct_avx2.h"
#include "kernel/jpeg/jpeg_kernels.h"

/* Transforms four columns. x04, x26, x71 and x35: pairs of rows. out: rows 0..7, scaled by 2^13, with half of 2^shift added for rounding. */
STK__IDCT_INLINE void transform(__m256i x04, __m256i x26, __m256i x71, __m256i x35, const int shift, __m256i out[8])
{
	const __m256i round = _mm256_set1_epi32(1 << (shift - 1));
	const __m256i swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
	__m256i x40 = _mm256_shuffle_epi8(x04, swap);
	__m256i t0 = _mm256_add_epi32(stk__idct_dot_avx2(_mm256_add_epi16(x04, x40), 8192, 0), round);
	__m256i t1 = _mm256_add_epi32(stk__idct_dot_avx2(_mm256_sub_epi16(x04, x40), 8192, 0), round);
	__m256i t2 = stk__idct_dot_avx2(x26, C0_541, C0_541 - C1_847), t3 = stk__idct_dot_avx2(x26, C0_541 + C0_765, C0_541);
	__m256i even[4] = {_mm256_add_epi32(t0, t3), _mm256_add_epi32(t1, t2), _mm256_sub_epi32(t1, t2), _mm256_sub_epi32(t0, t3)};
	__m256i sum = _mm256_add_epi16(x71, x35), z3 = stk__idct_dot_avx2(sum, C1_175 - C1_961, C1_175),
		z4 = stk__idct_dot_avx2(sum, C1_175, C1_175 - C0_390);
	__m256i odd[4] = {_mm256_add_epi32(stk__idct_dot_avx2(x71, -C0_899, C1_501 - C0_899), z4),
		_mm256_add_epi32(stk__idct_dot_avx2(x35, C3_072 - C2_562, -C2_562), z3),
		_mm256_add_epi32(stk__idct_dot_avx2(x35, -C2_562, C2_053 - C2_562), z4),
		_mm256_add_epi32(stk__idct_dot_avx2(x71, C0_298 - C0_899, -C0_899), z3)};
	for (int i = 0; i < 4; i++) {
		out[i] = _mm256_add_epi32(even[i], odd[i]);
		out[7 - i] = _mm256_sub_epi32(even[i], odd[i]);
	}
}

/* Runs the first pass. x: pairs of rows; elements with an even index have columns 0 4 2 6, the others columns 7 1 3 5. rows: eight rows of 8 columns. */
STK__IDCT_INLINE void transform_columns(const __m256i x[8], __m256i rows[8])
{
	__m256i low[8], high[8];
	transform(x[0], x[2], x[4], x[6], COLUMN_SHIFT, low);
	transform(x[1], x[3], x[5], x[7], COLUMN_SHIFT, high);
	for (int i = 0; i < 8; i++)
		rows[i] = _mm256_packs_epi32(_mm256_srai_epi32(low[i], COLUMN_SHIFT), _mm256_srai_epi32(high[i], COLUMN_SHIFT));
}

/* Runs the second pass. columns: one element for each column of samples, whose words are rows 0 4 1 5 2 6 3 7. */
STK__IDCT_INLINE void transform_rows(const __m256i rows[8], __m256i columns[8])
{
	__m256i x[4], low[8], high[8];
	stk__idct_transpose_pairs(rows, x);
	transform(x[0], x[1], x[2], x[3], ROW_SHIFT, low);
	stk__idct_transpose_pairs(rows + 4, x);
	transform(x[0], x[1], x[2], x[3], ROW_SHIFT, high);
	for (int i = 0; i < 8; i++) /* keeps the upper halves of the double words, and shifts them by 2 more bits */
		columns[i] = _mm256_srai_epi16(_mm256_blend_epi16(_mm256_srli_epi32(low[i], 16), high[i], 0xaa), ROW_SHIFT - 16);
}

/* Returns a register in which each half has all bits set if all coefficients of its block below the first row are 0, and otherwise no bits. */
STK__IDCT_INLINE __m256i flat_halves(const __m256i coefficients[8])
{
	__m256i ac = _mm256_srli_epi32(_mm256_or_si256(coefficients[0], coefficients[1]), 16); /* keeps row 4 and drops row 0 */
	for (int i = 2; i < 8; i++)
		ac = _mm256_or_si256(ac, coefficients[i]);
	__m256i zero = _mm256_cmpeq_epi64(ac, _mm256_setzero_si256());
	return _mm256_and_si256(zero, _mm256_shuffle_epi32(zero, _MM_SHUFFLE(1, 0, 3, 2)));
}

/* Stores columns of samples as rows, row y of block i at out[i] + y * stride[i]. The words of x[k] are the samples of column k in rows 0 4 1 5 2 6 3 7.
 * Packs words to bytes before it transposes them, since this halves the work. */
STK__IDCT_INLINE void store_columns(const __m256i x[8], uint8_t *const out[2], const ptrdiff_t stride[2])
{
	const __m256i middle = _mm256_set1_epi8(-128);
	__m256i a[4], b[4], rows[4];
	for (int i = 0; i < 4; i++) /* columns i and i + 4 */
		a[i] = _mm256_add_epi8(_mm256_packs_epi16(x[i], x[i + 4]), middle);
	b[0] = _mm256_unpacklo_epi8(a[0], a[1]); /* columns 0 and 1, row by row */
	b[1] = _mm256_unpacklo_epi8(a[2], a[3]);
	b[2] = _mm256_unpackhi_epi8(a[0], a[1]); /* columns 4 and 5, row by row */
	b[3] = _mm256_unpackhi_epi8(a[2], a[3]);
	__m256i left_low = _mm256_unpacklo_epi16(b[0], b[1]), left_high = _mm256_unpackhi_epi16(b[0], b[1]); /* columns 0..3 */
	__m256i right_low = _mm256_unpacklo_epi16(b[2], b[3]), right_high = _mm256_unpackhi_epi16(b[2], b[3]);
	rows[0] = _mm256_unpacklo_epi32(left_low, right_low);
	rows[1] = _mm256_unpackhi_epi32(left_low, right_low);
	rows[2] = _mm256_unpacklo_epi32(left_high, right_high);
	rows[3] = _mm256_unpackhi_epi32(left_high, right_high);
	for (int y = 0; y < 4; y++)
		for (int i = 0; i < 2; i++) {
			__m128i half = i ? _mm256_extracti128_si256(rows[y], 1) : _mm256_castsi256_si128(rows[y]);
			_mm_storel_epi64((void *)(out[i] + y * stride[i]), half);
			_mm_storeh_pd((void *)(out[i] + (y + 4) * stride[i]), _mm_castsi128_pd(half));
		}
}

STK__IDCT_INLINE void transform_pair(const __m256i *coefficients, const __m256i *quant, __m256i flat, const bool some_flat,
	uint8_t *const out[2], const ptrdiff_t stride[2])
{
	__m256i x[8], rows[8];
	for (int i = 0; i < 8; i++)
		x[i] = _mm256_mullo_epi16(coefficients[i], quant[i]);
	transform_columns(x, rows);
	if (some_flat)
		stk__idct_replace_flat(flat, x, rows, 8);
	transform_rows(rows, x);
	store_columns(x, out, stride);
}

static __attribute__((noinline)) void transform_some_flat(
	const __m256i *coefficients, const __m256i *quant, __m256i flat, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	transform_pair(coefficients, quant, flat, true, out, stride);
}

void stk__jpeg_idct_avx2(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	const __m256i *c = (const __m256i *)pair, *q = (const __m256i *)quant;
	__m256i flat = flat_halves(c);
	if (__builtin_expect(_mm256_testz_si256(flat, flat), 1))
		transform_pair(c, q, flat, false, out, stride);
	else
		transform_some_flat(c, q, flat, out, stride);
}
