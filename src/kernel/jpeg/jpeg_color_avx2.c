/* SPDX-License-Identifier: Apache-2.0
 * Upsampling and colour conversion for 32 bytes per step, with the arithmetic of jpeg_color.c. */
#include "kernel/jpeg/jpeg_kernels.h"

#include "kernel/common/avx2.h"
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- upsampling ---- */

/* 32 bytes as 16-bit values, in the order that the unpack instructions produce: low has bytes 0..7 and 16..23, high has 8..15 and 24..31. */
struct wide {
	__m256i low, high;
};

ALWAYS_INLINE __m256i load(const uint8_t *p)
{
	return _mm256_loadu_si256((const void *)p);
}

/* Returns 3 a + b for each of 32 bytes. */
ALWAYS_INLINE struct wide three_to_one(__m256i a, __m256i b)
{
	const __m256i weights = _mm256_set1_epi16(0x0103);
	return (struct wide){
		_mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), weights), _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), weights)};
}

ALWAYS_INLINE struct wide plus(struct wide v, int bias)
{
	const __m256i b = _mm256_set1_epi16((short)bias);
	return (struct wide){_mm256_add_epi16(v.low, b), _mm256_add_epi16(v.high, b)};
}

ALWAYS_INLINE struct wide quarter(struct wide v, int bias)
{
	v = plus(v, bias);
	return (struct wide){_mm256_srli_epi16(v.low, 2), _mm256_srli_epi16(v.high, 2)};
}

ALWAYS_INLINE struct wide sixteenth(struct wide v, int bias)
{
	v = plus(v, bias);
	return (struct wide){_mm256_srli_epi16(v.low, 4), _mm256_srli_epi16(v.high, 4)};
}

/* Returns 3 a + b for 16-bit values. */
ALWAYS_INLINE struct wide mix(struct wide a, struct wide b)
{
	__m256i low = _mm256_add_epi16(a.low, _mm256_add_epi16(a.low, a.low)),
		high = _mm256_add_epi16(a.high, _mm256_add_epi16(a.high, a.high));
	return (struct wide){_mm256_add_epi16(low, b.low), _mm256_add_epi16(high, b.high)};
}

/* Stores 64 samples, alternately from `even` and `odd`. */
ALWAYS_INLINE void store_pairs(uint8_t *dst, struct wide even, struct wide odd)
{
	__m256i low = _mm256_or_si256(even.low, _mm256_slli_epi16(odd.low, 8)),
		high = _mm256_or_si256(even.high, _mm256_slli_epi16(odd.high, 8));
	_mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(low, high, 0x20));
	_mm256_storeu_si256((void *)(dst + 32), _mm256_permute2x128_si256(low, high, 0x31));
}

void stk__jpeg_upsample_h2v1_avx2(uint8_t *dst, const uint8_t *src, int n)
{
	for (int i = 0; i < n; i += 32) {
		__m256i here = load(src + i);
		struct wide even = quarter(three_to_one(here, load(src + i - 1)), 1),
			    odd = quarter(three_to_one(here, load(src + i + 1)), 2);
		store_pairs(dst + 2 * i, even, odd);
	}
}

void stk__jpeg_upsample_h2v2_avx2(uint8_t *dst, const uint8_t *near, const uint8_t *far, int n)
{
	for (int i = 0; i < n; i += 32) {
		struct wide left = three_to_one(load(near + i - 1), load(far + i - 1)), here = three_to_one(load(near + i), load(far + i)),
			    right = three_to_one(load(near + i + 1), load(far + i + 1));
		store_pairs(dst + 2 * i, sixteenth(mix(here, left), 8), sixteenth(mix(here, right), 7));
	}
}

void stk__jpeg_upsample_h1v2_avx2(uint8_t *dst, const uint8_t *near, const uint8_t *far, int bias, int n)
{
	for (int i = 0; i < n; i += 32) {
		struct wide v = quarter(three_to_one(load(near + i), load(far + i)), bias);
		_mm256_storeu_si256((void *)(dst + i), _mm256_packus_epi16(v.low, v.high));
	}
}

/* ---- colour ---- */

/* The numbers that are added to the luma of 16 pixels to give red, green and blue. A signed word with 16 bits of fraction holds only factors below 1/2. So cr
 * is multiplied by 1.402 - 1 for red and by 1 - 0.71414 for green, and cb by 1.772 - 2 for blue; the rest, a multiple of cr or cb, is added afterwards. Red and
 * blue are rounded from 17 bits of fraction, green from 16. For every cb and cr, the results equal those of stk__jpeg_ycc_to_rgb_c, which has 16 bits of
 * fraction (a test checks all 65536 pairs). */
struct offsets {
	__m256i red, green, blue;
};

ALWAYS_INLINE __m256i halve(__m256i v)
{
	return _mm256_srai_epi16(_mm256_add_epi16(v, _mm256_set1_epi16(1)), 1);
}

ALWAYS_INLINE struct offsets chroma_offsets(__m256i cb, __m256i cr)
{
	const __m256i green = _mm256_set1_epi32((int)((uint32_t)(uint16_t)-22554 | 18734u << 16)), half = _mm256_set1_epi32(32768);
	__m256i cb2 = _mm256_add_epi16(cb, cb), cr2 = _mm256_add_epi16(cr, cr);
	struct offsets o;
	o.red = _mm256_add_epi16(halve(_mm256_mulhi_epi16(cr2, _mm256_set1_epi16(26345))), cr);
	o.blue = _mm256_add_epi16(halve(_mm256_mulhi_epi16(cb2, _mm256_set1_epi16(-14942))), cb2);
	__m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), green),
		high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), green);
	low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
	high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
	o.green = _mm256_sub_epi16(_mm256_packs_epi32(low, high), cr);
	return o;
}

/* Saturates 16-bit values to bytes, and returns them alternately from `even` and `odd`. */
ALWAYS_INLINE __m256i join(__m256i even, __m256i odd)
{
	const __m256i order = _mm256_setr_epi8(
		0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
	return _mm256_shuffle_epi8(_mm256_packus_epi16(even, odd), order);
}

#define N -1
#define SHUFFLE(v, ...) _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__)))

/* Stores 32 pixels of three bytes, whose colours are in r, g and b. */
ALWAYS_INLINE void store_three(uint8_t *dst, __m256i r, __m256i g, __m256i b)
{
	__m256i first = _mm256_or_si256(_mm256_or_si256(SHUFFLE(r, 0, N, N, 1, N, N, 2, N, N, 3, N, N, 4, N, N, 5),
						SHUFFLE(g, N, 0, N, N, 1, N, N, 2, N, N, 3, N, N, 4, N, N)),
		SHUFFLE(b, N, N, 0, N, N, 1, N, N, 2, N, N, 3, N, N, 4, N));
	__m256i second = _mm256_or_si256(_mm256_or_si256(SHUFFLE(r, N, N, 6, N, N, 7, N, N, 8, N, N, 9, N, N, 10, N),
						 SHUFFLE(g, 5, N, N, 6, N, N, 7, N, N, 8, N, N, 9, N, N, 10)),
		SHUFFLE(b, N, 5, N, N, 6, N, N, 7, N, N, 8, N, N, 9, N, N));
	__m256i third = _mm256_or_si256(_mm256_or_si256(SHUFFLE(r, N, 11, N, N, 12, N, N, 13, N, N, 14, N, N, 15, N, N),
						SHUFFLE(g, N, N, 11, N, N, 12, N, N, 13, N, N, 14, N, N, 15, N)),
		SHUFFLE(b, 10, N, N, 11, N, N, 12, N, N, 13, N, N, 14, N, N, 15));
	_mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(first, second, 0x20));
	_mm256_storeu_si256((void *)(dst + 32), _mm256_permute2x128_si256(third, first, 0x30));
	_mm256_storeu_si256((void *)(dst + 64), _mm256_permute2x128_si256(second, third, 0x31));
}

ALWAYS_INLINE void convert_32(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, bool bgr)
{
	const __m256i low = _mm256_set1_epi16(255), middle = _mm256_set1_epi16(128);
	__m256i luma = load(y), b = load(cb), r = load(cr), even = _mm256_and_si256(luma, low), odd = _mm256_srli_epi16(luma, 8);
	struct offsets e =
		chroma_offsets(_mm256_sub_epi16(_mm256_and_si256(b, low), middle), _mm256_sub_epi16(_mm256_and_si256(r, low), middle));
	struct offsets o =
		chroma_offsets(_mm256_sub_epi16(_mm256_srli_epi16(b, 8), middle), _mm256_sub_epi16(_mm256_srli_epi16(r, 8), middle));
	__m256i red = join(_mm256_add_epi16(even, e.red), _mm256_add_epi16(odd, o.red));
	__m256i green = join(_mm256_add_epi16(even, e.green), _mm256_add_epi16(odd, o.green));
	__m256i blue = join(_mm256_add_epi16(even, e.blue), _mm256_add_epi16(odd, o.blue));
	if (bgr)
		store_three(dst, blue, green, red);
	else
		store_three(dst, red, green, blue);
}

ALWAYS_INLINE void convert_row(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, bool bgr)
{
	int i = 0;
	for (; i + 32 <= n; i += 32)
		convert_32(dst + 3 * i, y + i, cb + i, cr + i, bgr);
	if (i == n)
		return;
	uint8_t last[96];
	convert_32(last, y + i, cb + i, cr + i, bgr);
	memcpy(dst + 3 * i, last, (size_t)(3 * (n - i)));
}

void stk__jpeg_ycc_to_rgb_avx2(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, bool bgr)
{
	if (bgr)
		convert_row(dst, y, cb, cr, n, true);
	else
		convert_row(dst, y, cb, cr, n, false);
}

void stk__jpeg_interleave_avx2(uint8_t *dst, const uint8_t *a, const uint8_t *b, const uint8_t *c, int n)
{
	int i = 0;
	for (; i + 32 <= n; i += 32)
		store_three(dst + 3 * i, load(a + i), load(b + i), load(c + i));
	if (i == n)
		return;
	uint8_t last[96];
	store_three(last, load(a + i), load(b + i), load(c + i));
	memcpy(dst + 3 * i, last, (size_t)(3 * (n - i)));
}
