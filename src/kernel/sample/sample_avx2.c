/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/sample/sample_blocks.h"

#include <immintrin.h>

enum { LANES = 8 };

/* The four pixels around each of eight positions. pixel[i] has one of the four for each position, in 32-bit lanes. */
struct neighbours {
	__m256i pixel[4];
};

/* Returns two adjacent pixels, as 8 bytes, at each of two offsets from `base`. */
static inline __m128i load_two(const uint8_t *base, const int32_t *offset)
{
	__m128i low = _mm_loadl_epi64((const __m128i *)(const void *)(base + offset[0]));
	return _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(low), (const double *)(const void *)(base + offset[1])));
}

static inline void load_row(const uint8_t *base, const int32_t *offset, __m128i next, __m256i *first, __m256i *second)
{
	__m256i a = _mm256_inserti128_si256(_mm256_castsi128_si256(load_two(base, offset)), load_two(base, offset + 4), 1),
		b = _mm256_inserti128_si256(_mm256_castsi128_si256(load_two(base, offset + 2)), load_two(base, offset + 6), 1);
	__m256 a_next = _mm256_castsi256_ps(_mm256_srl_epi64(a, next)), b_next = _mm256_castsi256_ps(_mm256_srl_epi64(b, next));
	*first = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), _MM_SHUFFLE(2, 0, 2, 0)));
	*second = _mm256_castps_si256(_mm256_shuffle_ps(a_next, b_next, _MM_SHUFFLE(2, 0, 2, 0)));
}

static inline struct neighbours load_inside(const struct stk_job_sample *s, const struct texels *t, const int32_t *offset)
{
	const __m128i next = _mm_cvtsi32_si128(8 * (int32_t)s->stride[0]);
	struct neighbours neighbours;
	load_row(t->base, offset, next, &neighbours.pixel[0], &neighbours.pixel[1]);
	load_row(t->base + s->stride[1], offset, next, &neighbours.pixel[2], &neighbours.pixel[3]);
	return neighbours;
}

/* Returns the pixels around positions k .. k + n - 1, any of which may be at the border. */
static struct neighbours load_mixed(const struct stk_job_sample *s, const struct block *b, const struct texels *t, int32_t k, int32_t n)
{
	uint32_t all[4][LANES] = {0};
	struct neighbours neighbours;
	for (int32_t i = 0; i < n; i++) {
		uint32_t border[4];
		load_border(s, b, t, k + i, border);
		for (int32_t j = 0; j < 4; j++)
			all[j][i] = border[j];
	}
	for (int32_t j = 0; j < 4; j++)
		neighbours.pixel[j] = _mm256_loadu_si256((const __m256i *)(const void *)all[j]);
	return neighbours;
}

/* Returns the interpolated values of one channel, rounded to bytes. */
static inline __m256i mix_channel(const struct neighbours *neighbours, int32_t channel, __m256 qx, __m256 qy)
{
	__m256 a[4], px = _mm256_sub_ps(_mm256_set1_ps(1), qx);
	for (int i = 0; i < 4; i++)
		a[i] = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(neighbours->pixel[i], 8 * channel), _mm256_set1_epi32(255)));
	__m256 top = _mm256_add_ps(_mm256_mul_ps(a[0], px), _mm256_mul_ps(a[1], qx));
	__m256 bottom = _mm256_add_ps(_mm256_mul_ps(a[2], px), _mm256_mul_ps(a[3], qx));
	__m256 value = _mm256_add_ps(top, _mm256_mul_ps(_mm256_sub_ps(bottom, top), qy));
	__m256i whole = _mm256_cvttps_epi32(value);
	__m256 up = _mm256_cmp_ps(_mm256_sub_ps(value, _mm256_cvtepi32_ps(whole)), _mm256_set1_ps(0.5f), _CMP_GE_OQ);
	return _mm256_sub_epi32(whole, _mm256_castps_si256(up));
}

/* Stores adjacent pixels with two stores of 16 bytes. Each store has four pixels; its other bytes are overwritten later. */
static inline void store_together(uint8_t *dst, __m256i pixels, int32_t channels)
{
	const __m128i order[] = {_mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
		_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1),
		_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1),
		_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
	pixels = _mm256_shuffle_epi8(pixels, _mm256_broadcastsi128_si256(order[channels - 1]));
	_mm_storeu_si128((__m128i *)(void *)dst, _mm256_castsi256_si128(pixels));
	_mm_storeu_si128((__m128i *)(void *)(dst + 4 * channels), _mm256_extracti128_si256(pixels, 1));
}

static inline void store_some(uint8_t *dst, const int64_t step[2], __m256i pixels, int32_t channels, int32_t n)
{
	uint32_t all[LANES];
	_mm256_storeu_si256((__m256i *)(void *)all, pixels);
	for (int32_t i = 0; i < n; i++)
		for (int32_t c = 0; c < channels; c++)
			dst[i * step[0] + c * step[1]] = (uint8_t)(all[i] >> 8 * c);
}

static inline void mix_pixels(
	const struct stk_job_sample *s, struct block *b, const struct texels *t, uint8_t *dst, const int64_t step[2], int32_t channels)
{
	bool together = step[0] == channels && (channels == 1 || step[1] == 1);
	for (int32_t k = 0; k < b->n; k += LANES) {
		int32_t n = b->n - k < LANES ? b->n - k : LANES;
		__m256i offsets = _mm256_loadu_si256((const __m256i *)(const void *)(b->offset + k));
		bool inside = n == LANES && !_mm256_movemask_ps(_mm256_castsi256_ps(offsets));
		struct neighbours neighbours = inside ? load_inside(s, t, b->offset + k) : load_mixed(s, b, t, k, n);
		__m256 qx = _mm256_loadu_ps(b->qx + k), qy = _mm256_loadu_ps(b->qy + k);
		__m256i pixels = mix_channel(&neighbours, 0, qx, qy);
		for (int32_t c = 1; c < channels; c++)
			pixels = _mm256_or_si256(pixels, _mm256_slli_epi32(mix_channel(&neighbours, c, qx, qy), 8 * c));
		if (together && (b->n - k) * channels >= 4 * channels + 16)
			store_together(dst + k * step[0], pixels, channels);
		else
			store_some(dst + k * step[0], step, pixels, channels, n);
	}
}

static void mix_bytes(const struct stk_job_sample *s, struct block *b, const struct texels *t, uint8_t *dst, const int64_t step[2])
{
	switch (t->channels) { /* makes the number of channels a constant in the loops */
	case 1:
		mix_pixels(s, b, t, dst, step, 1);
		break;
	case 2:
		mix_pixels(s, b, t, dst, step, 2);
		break;
	case 3:
		mix_pixels(s, b, t, dst, step, 3);
		break;
	default:
		mix_pixels(s, b, t, dst, step, 4);
	}
}

void stk__sample_run_avx2(const struct stk_job *job)
{
	run_sample(job, mix_bytes);
}
