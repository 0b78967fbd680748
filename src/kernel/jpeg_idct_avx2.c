/* SPDX-License-Identifier: Apache-2.0
 * Inverse DCT of two blocks, one in each half of a register: jpeg_idct.c's arithmetic. A column pass, a transposition within each half, the same
 * pass again on what were rows, and a transposition back. */
#include "kernel/jpeg_idct.h"
#include "kernel/jpeg_kernels.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* a and b in turn, as madd takes them. */
ALWAYS_INLINE __m256i both(int a, int b)
{
	return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)(uint16_t)b << 16));
}

/* 16 values of 32 bits. */
struct wide {
	__m256i low, high;
};

/* x[i] * a + y[i] * b */
ALWAYS_INLINE struct wide dot(__m256i x, __m256i y, int a, int b)
{
	__m256i factors = both(a, b);
	return (struct wide){
		_mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), factors), _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), factors)};
}

ALWAYS_INLINE struct wide add(struct wide a, struct wide b)
{
	return (struct wide){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

ALWAYS_INLINE struct wide subtract(struct wide a, struct wide b)
{
	return (struct wide){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

/* x * 2^13 + round: the value goes to the upper half of 32 bits, and 3 bits down. */
ALWAYS_INLINE struct wide scale(__m256i x, __m256i round)
{
	__m256i zero = _mm256_setzero_si256();
	return (struct wide){_mm256_add_epi32(_mm256_srai_epi32(_mm256_unpacklo_epi16(zero, x), 3), round),
		_mm256_add_epi32(_mm256_srai_epi32(_mm256_unpackhi_epi16(zero, x), 3), round)};
}

ALWAYS_INLINE __m256i narrow(struct wide a, int shift)
{
	return _mm256_packs_epi32(_mm256_srai_epi32(a.low, shift), _mm256_srai_epi32(a.high, shift));
}

/* Columns in place: x[i] holds row i of both blocks. */
ALWAYS_INLINE void transform(__m256i *x, const int shift)
{
	__m256i round = _mm256_set1_epi32(1 << (shift - 1));
	struct wide t0 = scale(_mm256_add_epi16(x[0], x[4]), round), t1 = scale(_mm256_sub_epi16(x[0], x[4]), round);
	struct wide t2 = dot(x[2], x[6], C0_541, C0_541 - C1_847), t3 = dot(x[2], x[6], C0_541 + C0_765, C0_541);
	__m256i s73 = _mm256_add_epi16(x[7], x[3]), s51 = _mm256_add_epi16(x[5], x[1]);
	struct wide z3 = dot(s73, s51, C1_175 - C1_961, C1_175), z4 = dot(s73, s51, C1_175, C1_175 - C0_390);
	struct wide even[4] = {add(t0, t3), add(t1, t2), subtract(t1, t2), subtract(t0, t3)};
	struct wide odd[4] = {add(dot(x[7], x[1], -C0_899, C1_501 - C0_899), z4), add(dot(x[5], x[3], -C2_562, C3_072 - C2_562), z3),
		add(dot(x[5], x[3], C2_053 - C2_562, -C2_562), z4), add(dot(x[7], x[1], C0_298 - C0_899, -C0_899), z3)};
	for (int i = 0; i < 4; i++) {
		x[i] = narrow(add(even[i], odd[i]), shift);
		x[7 - i] = narrow(subtract(even[i], odd[i]), shift);
	}
}

/* Each half's 8x8 by itself. */
ALWAYS_INLINE void transpose(__m256i *x)
{
	__m256i a[8], b[8];
	for (int i = 0; i < 4; i++) {
		a[2 * i] = _mm256_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
		a[2 * i + 1] = _mm256_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
	}
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++) {
			b[4 * i + 2 * j] = _mm256_unpacklo_epi32(a[4 * i + j], a[4 * i + 2 + j]);
			b[4 * i + 2 * j + 1] = _mm256_unpackhi_epi32(a[4 * i + j], a[4 * i + 2 + j]);
		}
	for (int i = 0; i < 4; i++) {
		x[2 * i] = _mm256_unpacklo_epi64(b[i], b[4 + i]);
		x[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[4 + i]);
	}
}

/* All ones in the half of a block whose rows 1..7 are zero. */
ALWAYS_INLINE __m256i flat_halves(const __m256i *c)
{
	__m256i ac = _mm256_or_si256(_mm256_or_si256(_mm256_or_si256(c[1], c[2]), _mm256_or_si256(c[3], c[4])),
		_mm256_or_si256(_mm256_or_si256(c[5], c[6]), c[7]));
	__m256i zero = _mm256_cmpeq_epi64(ac, _mm256_setzero_si256());
	return _mm256_and_si256(zero, _mm256_shuffle_epi32(zero, _MM_SHUFFLE(1, 0, 3, 2)));
}

/* Columns of samples to rows: x[i] holds column i of both blocks. Bytes are half as many as words to transpose. */
ALWAYS_INLINE void store_columns(const __m256i *x, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	const __m256i middle = _mm256_set1_epi8(-128);
	__m256i a[4], b[4], rows[4];
	for (int i = 0; i < 4; i++) /* columns i and i + 4 */
		a[i] = _mm256_add_epi8(_mm256_packs_epi16(x[i], x[i + 4]), middle);
	b[0] = _mm256_unpacklo_epi8(a[0], a[1]); /* columns 0 1, row by row */
	b[1] = _mm256_unpacklo_epi8(a[2], a[3]);
	b[2] = _mm256_unpackhi_epi8(a[0], a[1]); /* 4 5 */
	b[3] = _mm256_unpackhi_epi8(a[2], a[3]);
	__m256i left_low = _mm256_unpacklo_epi16(b[0], b[1]),
		left_high = _mm256_unpackhi_epi16(b[0], b[1]); /* 0..3 of rows 0..3, of rows 4..7 */
	__m256i right_low = _mm256_unpacklo_epi16(b[2], b[3]), right_high = _mm256_unpackhi_epi16(b[2], b[3]);
	rows[0] = _mm256_unpacklo_epi32(left_low, right_low);
	rows[1] = _mm256_unpackhi_epi32(left_low, right_low);
	rows[2] = _mm256_unpacklo_epi32(left_high, right_high);
	rows[3] = _mm256_unpackhi_epi32(left_high, right_high);
	for (int y = 0; y < 4; y++)
		for (int i = 0; i < 2; i++) {
			__m128i half = i ? _mm256_extracti128_si256(rows[y], 1) : _mm256_castsi256_si128(rows[y]);
			_mm_storel_epi64((void *)(out[i] + 2 * y * stride[i]), half);
			_mm_storeh_pd((void *)(out[i] + (2 * y + 1) * stride[i]), _mm_castsi128_pd(half));
		}
}

void stk__jpeg_idct_avx2(const int16_t *pair, const uint16_t *quant, uint8_t *const out[2], const ptrdiff_t stride[2])
{
	__m256i c[8], x[8];
	for (int i = 0; i < 8; i++) {
		c[i] = _mm256_load_si256((const void *)(pair + 16 * i));
		x[i] = _mm256_mullo_epi16(c[i], _mm256_load_si256((const void *)(quant + 16 * i)));
	}
	__m256i flat = flat_halves(c), shifted = _mm256_slli_epi16(x[0], 2);
	transform(x, COLUMN_SHIFT);
	if (__builtin_expect(!_mm256_testz_si256(flat, flat), 0))
		for (int i = 0; i < 8; i++)
			x[i] = _mm256_blendv_epi8(x[i], shifted, flat);
	transpose(x);
	transform(x, ROW_SHIFT);
	store_columns(x, out, stride);
}
