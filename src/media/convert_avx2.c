/* SPDX-License-Identifier: Apache-2.0
 * Converts rows of pictures with AVX2, 16 pixels at a time. Two neighbouring pixels share a chroma sample, so its products are computed once for both. */
#include "media/convert.h"

#include <immintrin.h>

static inline __m256i widen(const uint8_t *from)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
}

/* Shifts the sums of 16 pixels right by 16 bits, and saturates them to bytes. */
static inline __m128i narrow(__m256i low, __m256i high)
{
	const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_srai_epi32(low, 16), _mm256_srai_epi32(high, 16)), 0xd8);
	return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

/* Returns bytes 16 * part to 16 * part + 15 of the sequence R G B R G B ... */
static inline __m128i interleave(__m128i r, __m128i g, __m128i b, int part)
{
	static const int8_t shuffles[3][3][16] = {
		{{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5}, {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
			{-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
		{{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1}, {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
			{-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
		{{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
			{-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
			{10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}}};
	const __m128i *at = (const __m128i *)shuffles[part];
	return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, _mm_loadu_si128(at)), _mm_shuffle_epi8(g, _mm_loadu_si128(at + 1))),
		_mm_shuffle_epi8(b, _mm_loadu_si128(at + 2)));
}

void stk__yuv_row_avx2(const struct stk_yuv_matrix *m, const uint8_t *y, const uint8_t *u, const uint8_t *v, int32_t width,
	uint8_t *const out[3], ptrdiff_t pixel)
{
	const __m256i luma = _mm256_set1_epi32(m->luma), luma_zero = _mm256_set1_epi32(m->luma_zero);
	const __m256i chroma_zero = _mm256_set1_epi32(m->chroma_zero), half = _mm256_set1_epi32(1 << 15);
	const __m256i red_v = _mm256_set1_epi32(m->red_v), green_u = _mm256_set1_epi32(m->green_u);
	const __m256i green_v = _mm256_set1_epi32(m->green_v), blue_u = _mm256_set1_epi32(m->blue_u);
	const __m256i first = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3), second = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
	int32_t x = 0;
	for (; x + 16 <= width; x += 16) {
		const __m256i cb = _mm256_sub_epi32(widen(u + x / 2), chroma_zero), cr = _mm256_sub_epi32(widen(v + x / 2), chroma_zero);
		const __m256i red = _mm256_mullo_epi32(cr, red_v), blue = _mm256_mullo_epi32(cb, blue_u);
		const __m256i green = _mm256_add_epi32(_mm256_mullo_epi32(cb, green_u), _mm256_mullo_epi32(cr, green_v));
		const __m256i l0 = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_sub_epi32(widen(y + x), luma_zero), luma), half);
		const __m256i l1 = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_sub_epi32(widen(y + x + 8), luma_zero), luma), half);
		const __m128i r = narrow(_mm256_add_epi32(l0, _mm256_permutevar8x32_epi32(red, first)),
			_mm256_add_epi32(l1, _mm256_permutevar8x32_epi32(red, second)));
		const __m128i g = narrow(_mm256_sub_epi32(l0, _mm256_permutevar8x32_epi32(green, first)),
			_mm256_sub_epi32(l1, _mm256_permutevar8x32_epi32(green, second)));
		const __m128i b = narrow(_mm256_add_epi32(l0, _mm256_permutevar8x32_epi32(blue, first)),
			_mm256_add_epi32(l1, _mm256_permutevar8x32_epi32(blue, second)));
		if (pixel == 1) {
			_mm_storeu_si128((__m128i *)(out[0] + x), r);
			_mm_storeu_si128((__m128i *)(out[1] + x), g);
			_mm_storeu_si128((__m128i *)(out[2] + x), b);
			continue;
		}
		for (int part = 0; part < 3; part++)
			_mm_storeu_si128((__m128i *)(out[0] + 3 * x) + part, interleave(r, g, b, part));
	}
	stk__yuv_row(m, y + x, u + x / 2, v + x / 2, width - x, (uint8_t *[3]){out[0] + x * pixel, out[1] + x * pixel, out[2] + x * pixel},
		pixel);
}
