/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/rows/rows.h"
#include "kernel/warp/warp_position.h"

#include <immintrin.h>
#include <string.h>

/* Source positions of outputs k .. k + 7, as in stk__warp_position. */
struct positions {
	__m256i x, y;
	__m256 qx, qy;
};

static inline __m256i floor8(__m256 x)
{
	x = _mm256_max_ps(x, _mm256_set1_ps(-1e9f)); /* NaN becomes -1e9, as in stk__warp_floor: max returns operand 2 */
	x = _mm256_min_ps(x, _mm256_set1_ps(1e9f));
	return _mm256_cvttps_epi32(_mm256_floor_ps(x));
}

static inline struct positions positions_at(const struct stk_warp_row *w, int32_t k)
{
	/* Lanes past the row's end repeat its last pixel, since positions after it may be outside of the part of the source that is in memory. */
	__m256i lane = _mm256_min_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(w->n - 1 - k));
	__m256i steps = _mm256_mullo_epi32(lane, _mm256_set1_epi32(w->step));
	__m256i index = _mm256_add_epi32(_mm256_set1_epi32(w->first + k * w->step), steps);
	__m256 half = _mm256_set1_ps(w->linear ? 0.5f : 0), fx = _mm256_add_ps(_mm256_cvtepi32_ps(index), _mm256_set1_ps(0.5f));
	float fy = (float)w->y + 0.5f;
	__m256 x = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(w->m[0]), fx), _mm256_set1_ps(w->m[1] * fy + w->m[2]));
	__m256 y = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(w->m[3]), fx), _mm256_set1_ps(w->m[4] * fy + w->m[5]));
	x = _mm256_sub_ps(x, half);
	y = _mm256_sub_ps(y, half);
	struct positions p = {.x = floor8(x), .y = floor8(y)};
	p.qx = _mm256_sub_ps(x, _mm256_cvtepi32_ps(p.x));
	p.qy = _mm256_sub_ps(y, _mm256_cvtepi32_ps(p.y));
	return p;
}

static inline __m256i clamp8(__m256i x, int32_t size)
{
	return _mm256_max_epi32(_mm256_min_epi32(x, _mm256_set1_epi32(size - 1)), _mm256_setzero_si256());
}

/* Eight pixels of up to four bytes each, in 32-bit lanes; a smaller pixel is followed by other bytes. A lane of `inside` is 0 if the pixel is outside and gets
 * the fill value, otherwise all its bits are set. */
struct texels {
	__m256i bytes, inside;
};

/* The offsets in bytes of eight pixels in the source, and `inside` as in struct texels. */
struct places {
	__m256i at, inside;
};

static inline struct places find(const struct stk_warp_row *w, __m256i x, __m256i y)
{
	__m256i ix = clamp8(x, w->src.width), iy = clamp8(y, w->src.height);
	struct places p;
	p.at = _mm256_add_epi32(
		_mm256_mullo_epi32(iy, _mm256_set1_epi32((int)w->src.row)), _mm256_mullo_epi32(ix, _mm256_set1_epi32((int)w->src.pixel)));
	p.inside = w->clamp ? _mm256_set1_epi32(-1) : _mm256_and_si256(_mm256_cmpeq_epi32(ix, x), _mm256_cmpeq_epi32(iy, y));
	return p;
}

static inline struct texels fetch(const struct stk_warp_row *w, __m256i x, __m256i y)
{
	struct places p = find(w, x, y);
	return (struct texels){_mm256_i32gather_epi32(w->src.data, p.at, 1), p.inside};
}

static inline __m256 fetch_floats(const struct stk_warp_row *w, struct places p, int32_t c)
{
	const float *base = (const float *)(const void *)((const char *)w->src.data + c * w->src.channel);
	return _mm256_blendv_ps(_mm256_set1_ps(w->fill), _mm256_i32gather_ps(base, p.at, 1), _mm256_castsi256_ps(p.inside));
}

static inline __m256 channel_of(struct texels t, int32_t c, __m256 fill)
{
	__m256i byte = _mm256_and_si256(_mm256_srli_epi32(t.bytes, 8 * c), _mm256_set1_epi32(255));
	return _mm256_blendv_ps(fill, _mm256_cvtepi32_ps(byte), _mm256_castsi256_ps(t.inside));
}

static void store_some(float *dst, __m256 value, int32_t n)
{
	float all[8];
	_mm256_storeu_ps(all, value);
	memcpy(dst, all, (size_t)n * sizeof *dst);
}

/* Returns stk__warp_mix of eight pixels. */
static inline __m256 mix(__m256 s00, __m256 s01, __m256 s10, __m256 s11, const struct positions *p)
{
	__m256 px = _mm256_sub_ps(_mm256_set1_ps(1), p->qx);
	__m256 top = _mm256_add_ps(_mm256_mul_ps(s00, px), _mm256_mul_ps(s01, p->qx));
	__m256 bottom = _mm256_add_ps(_mm256_mul_ps(s10, px), _mm256_mul_ps(s11, p->qx));
	return _mm256_add_ps(top, _mm256_mul_ps(_mm256_sub_ps(bottom, top), p->qy));
}

static void store(const struct stk_warp_row *w, int32_t k, int32_t c, __m256 value)
{
	float *to = w->dst + c * w->plane + k;
	if (k + 8 <= w->n)
		_mm256_storeu_ps(to, value);
	else
		store_some(to, value, w->n - k);
}

/* Makes a row of interleaved uint8 pixels of 1 to 4 channels; all offsets in the source fit int32. */
static void warp_bytes(const struct stk_warp_row *w)
{
	const __m256 fill = _mm256_set1_ps(w->fill);
	const __m256i next = _mm256_set1_epi32(1);
	for (int32_t k = 0; k < w->n; k += 8) {
		struct positions p = positions_at(w, k);
		struct texels t00 = fetch(w, p.x, p.y), t01 = t00, t10 = t00, t11 = t00;
		if (w->linear) {
			__m256i right = _mm256_add_epi32(p.x, next), below = _mm256_add_epi32(p.y, next);
			t01 = fetch(w, right, p.y);
			t10 = fetch(w, p.x, below);
			t11 = fetch(w, right, below);
		}
		for (int32_t c = 0; c < w->src.channels; c++) {
			__m256 value = channel_of(t00, c, fill);
			if (w->linear)
				value = mix(value, channel_of(t01, c, fill), channel_of(t10, c, fill), channel_of(t11, c, fill), &p);
			store(w, k, c, value);
		}
	}
}

/* Makes a row of float32 pixels in any layout; all offsets in the source fit int32. */
static void warp_floats(const struct stk_warp_row *w)
{
	const __m256i next = _mm256_set1_epi32(1);
	for (int32_t k = 0; k < w->n; k += 8) {
		struct positions p = positions_at(w, k);
		__m256i right = _mm256_add_epi32(p.x, next), below = _mm256_add_epi32(p.y, next);
		struct places at[4] = {find(w, p.x, p.y), find(w, right, p.y), find(w, p.x, below), find(w, right, below)};
		for (int32_t c = 0; c < w->src.channels; c++) {
			__m256 value = fetch_floats(w, at[0], c);
			if (w->linear)
				value = mix(value, fetch_floats(w, at[1], c), fetch_floats(w, at[2], c), fetch_floats(w, at[3], c), &p);
			store(w, k, c, value);
		}
	}
}

static void warp_row(const struct stk_warp_row *w)
{
	ptrdiff_t row = w->src.row < 0 ? -w->src.row : w->src.row, pixel = w->src.pixel < 0 ? -w->src.pixel : w->src.pixel;
	bool bytes = w->src.dtype == STK_UINT8 && w->src.channels <= 4 && (w->src.channel == 1 || w->src.channels == 1);
	bool fits_int32 = row * w->src.height < INT32_MAX - 64 && pixel * w->src.width < INT32_MAX - row * w->src.height - 64;
	if (bytes && fits_int32)
		warp_bytes(w);
	else if (w->src.dtype == STK_FLOAT && fits_int32)
		warp_floats(w);
	else
		stk__warp_kernels_c.row(w);
}

const struct stk_warp_kernels stk__warp_kernels_avx2 = {.row = warp_row};
