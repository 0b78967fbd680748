/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/rows/rows_template.h"

#include "kernel/common/avx2.h"

static void to_half(uint16_t *restrict dst, const float *restrict src, int32_t n)
{
	int32_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
	for (; i < n; i++)
		dst[i] = stk__float_to_half(src[i]);
}

static void from_half(float *restrict dst, const uint16_t *restrict src, int32_t n)
{
	int32_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + i))));
	for (; i < n; i++)
		dst[i] = stk__half_to_float(src[i]);
}

/* Rounds eight numbers to the nearest bfloat16, halves to even; results for NaN are wrong. Returns the bfloat16s in 32 bits each. */
static inline __m256i bfloat_round(__m256 x)
{
	__m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
	return _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}

static inline __m128i bfloat8(__m256 x)
{
	__m256i nan = _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(x), 16), _mm256_set1_epi32(0x40));
	__m256i u = _mm256_blendv_epi8(bfloat_round(x), nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
	return _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
}

static void to_bfloat(uint16_t *restrict dst, const float *restrict src, int32_t n)
{
	int32_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)(dst + i), bfloat8(_mm256_loadu_ps(src + i)));
	for (; i < n; i++)
		dst[i] = stk__float_to_bfloat(src[i]);
}

static void round_integer(float *restrict row, int32_t n, float low, float high)
{
	const __m256 least = _mm256_set1_ps(low), most = _mm256_set1_ps(high), one = _mm256_set1_ps(1);
	int32_t i = 0;
	for (; i + 8 <= n; i += 8) {
		__m256 x = _mm256_loadu_ps(row + i);
		x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
		x = _mm256_min_ps(_mm256_max_ps(x, least), most);
		__m256 whole = _mm256_cvtepi32_ps(_mm256_cvttps_epi32(x)), part = _mm256_sub_ps(x, whole);
		__m256 up = _mm256_and_ps(_mm256_cmp_ps(part, _mm256_set1_ps(0.5f), _CMP_GE_OQ), one);
		__m256 down = _mm256_and_ps(_mm256_cmp_ps(part, _mm256_set1_ps(-0.5f), _CMP_LE_OQ), one);
		_mm256_storeu_ps(row + i, _mm256_sub_ps(_mm256_add_ps(whole, up), down));
	}
	for (; i < n; i++)
		row[i] = round_one(row[i], low, high);
}

enum { AS_FLOAT, AS_HALF, AS_BFLOAT };

static inline __m256 affine8(const uint8_t *in, __m256 scale, __m256 bias)
{
	__m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)in)));
	return _mm256_add_ps(_mm256_mul_ps(x, scale), bias);
}

static inline void put8(void *dst, int32_t i, __m256 x, int as, bool stream)
{
	if (as == AS_FLOAT && stream)
		_mm256_stream_ps((float *)dst + i, x);
	else if (as == AS_FLOAT)
		_mm256_storeu_ps((float *)dst + i, x);
	else
		_mm_storeu_si128((void *)((uint16_t *)dst + i), as == AS_HALF ? _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT) : bfloat8(x));
}

/* Computes elements i .. n - 1 of a row; i is a multiple of STK_AFFINE_PERIOD. */
static inline void affine_tail(void *out, const uint8_t *in, int32_t i, int32_t n, const struct stk_affine *a, int as, bool stream)
{
	for (int32_t k = 0; i < n; k += 8) {
		if (i + 8 <= n) {
			put8(out, i, affine8(in + i, _mm256_loadu_ps(a->scale + k), _mm256_loadu_ps(a->bias + k)), as, stream);
			i += 8;
			continue;
		}
		for (; i < n; i++, k++) {
			float x = (float)in[i] * a->scale[k] + a->bias[k];
			if (as == AS_FLOAT)
				((float *)out)[i] = x;
			else
				((uint16_t *)out)[i] = as == AS_HALF ? stk__float_to_half(x) : stk__float_to_bfloat(x);
		}
	}
}

/* Computes rows like affine_u8 of stk_row_kernels. finite: true if no result can be NaN, so that bfloat16 needs no check for NaN. */
static inline void affine_u8(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,
	const struct stk_affine *a, int as, bool finite, bool stream)
{
	__m256 s0 = _mm256_loadu_ps(a->scale), s1 = _mm256_loadu_ps(a->scale + 8), s2 = _mm256_loadu_ps(a->scale + 16);
	__m256 b0 = _mm256_loadu_ps(a->bias), b1 = _mm256_loadu_ps(a->bias + 8), b2 = _mm256_loadu_ps(a->bias + 16);
	for (int32_t r = 0; r < rows; r++) {
		void *out = (uint8_t *)dst + r * dst_row;
		const uint8_t *in = src + r * src_row;
		int32_t i = 0;
		for (; i + STK_AFFINE_PERIOD <= n; i += STK_AFFINE_PERIOD) {
			__m256 x0 = affine8(in + i, s0, b0), x1 = affine8(in + i + 8, s1, b1), x2 = affine8(in + i + 16, s2, b2);
			if (as == AS_BFLOAT && finite) {
				__m256i both = _mm256_packus_epi32(bfloat_round(x0), bfloat_round(x1)), last = bfloat_round(x2);
				uint16_t *to = (uint16_t *)out + i;
				_mm256_storeu_si256((void *)to, _mm256_permute4x64_epi64(both, 0xd8));
				_mm_storeu_si128((void *)(to + 16),
					_mm_packus_epi32(_mm256_castsi256_si128(last), _mm256_extracti128_si256(last, 1)));
			} else {
				put8(out, i, x0, as, stream);
				put8(out, i + 8, x1, as, stream);
				put8(out, i + 16, x2, as, stream);
			}
		}
		affine_tail(out, in, i, n, a, as, stream);
	}
}

static void affine_u8_float(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,
	const struct stk_affine *a, bool stream)
{
	bool aligned = ((uintptr_t)dst | (uintptr_t)dst_row) % sizeof(__m256) == 0;
	if (!stream || !aligned) {
		affine_u8(dst, dst_row, src, src_row, n, rows, a, AS_FLOAT, true, false);
		return;
	}
	affine_u8(dst, dst_row, src, src_row, n, rows, a, AS_FLOAT, true, true);
}

/* Computes rows of float16. Unlike stores of float32, these stores never bypass the caches, since each has only 16 bytes. */
static void affine_u8_half(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,
	const struct stk_affine *a, bool stream)
{
	(void)stream;
	affine_u8(dst, dst_row, src, src_row, n, rows, a, AS_HALF, true, false);
}

static void affine_u8_bfloat(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,
	const struct stk_affine *a, bool stream)
{
	(void)stream;
	bool finite = true;
	for (int k = 0; k < STK_AFFINE_PERIOD; k++) /* the limit keeps 255 * scale + bias finite */
		finite = finite && a->scale[k] > -1e30f && a->scale[k] < 1e30f && a->bias[k] > -1e30f && a->bias[k] < 1e30f;
	if (finite)
		affine_u8(dst, dst_row, src, src_row, n, rows, a, AS_BFLOAT, true, false);
	else
		affine_u8(dst, dst_row, src, src_row, n, rows, a, AS_BFLOAT, false, false);
}

/* Rounds like round_one does for uint8. NaN becomes 0, since max then returns its second operand. */
static inline __m256i round_byte8(__m256 x)
{
	x = _mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()), _mm256_set1_ps(255));
	__m256i whole = _mm256_cvttps_epi32(x);
	__m256 up = _mm256_cmp_ps(_mm256_sub_ps(x, _mm256_cvtepi32_ps(whole)), _mm256_set1_ps(0.5f), _CMP_GE_OQ);
	return _mm256_sub_epi32(whole, _mm256_castps_si256(up));
}

static void affine_u8_byte(void *dst, ptrdiff_t dst_row, const uint8_t *src, ptrdiff_t src_row, int32_t n, int32_t rows,
	const struct stk_affine *a, bool stream)
{
	(void)stream;
	__m256 s0 = _mm256_loadu_ps(a->scale), s1 = _mm256_loadu_ps(a->scale + 8), s2 = _mm256_loadu_ps(a->scale + 16);
	__m256 b0 = _mm256_loadu_ps(a->bias), b1 = _mm256_loadu_ps(a->bias + 8), b2 = _mm256_loadu_ps(a->bias + 16);
	for (int32_t r = 0; r < rows; r++) {
		uint8_t *out = (uint8_t *)dst + r * dst_row;
		const uint8_t *in = src + r * src_row;
		int32_t i = 0;
		for (; i + STK_AFFINE_PERIOD <= n; i += STK_AFFINE_PERIOD) {
			__m256i x0 = round_byte8(affine8(in + i, s0, b0)), x1 = round_byte8(affine8(in + i + 8, s1, b1)),
				x2 = round_byte8(affine8(in + i + 16, s2, b2));
			__m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(x0, x1), 0xd8);
			__m128i last = _mm_packus_epi32(_mm256_castsi256_si128(x2), _mm256_extracti128_si256(x2, 1));
			_mm_storeu_si128(
				(void *)(out + i), _mm_packus_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
			_mm_storel_epi64((void *)(out + i + 16), _mm_packus_epi16(last, last));
		}
		for (int32_t k = 0; i < n; i++, k++)
			out[i] = (uint8_t)round_one((float)in[i] * a->scale[k] + a->bias[k], 0, 255);
	}
}

static inline __m128i load16(const uint8_t *p)
{
	return _mm_loadu_si128((const void *)p);
}

/* Splits 16 pixels of three bytes into 16 bytes per channel. The shuffles move the bytes of a channel to their places; `or` combines the three results. */
static inline void split3(const uint8_t *p, __m128i out[3])
{
	__m128i a = load16(p), b = load16(p + 16), c = load16(p + 32);
	const __m128i a0 = _mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
	const __m128i b0 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1);
	const __m128i c0 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13);
	const __m128i a1 = _mm_setr_epi8(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
	const __m128i b1 = _mm_setr_epi8(-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1);
	const __m128i c1 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14);
	const __m128i a2 = _mm_setr_epi8(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
	const __m128i b2 = _mm_setr_epi8(-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1);
	const __m128i c2 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15);
	out[0] = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, a0), _mm_shuffle_epi8(b, b0)), _mm_shuffle_epi8(c, c0));
	out[1] = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, a1), _mm_shuffle_epi8(b, b1)), _mm_shuffle_epi8(c, c1));
	out[2] = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, a2), _mm_shuffle_epi8(b, b2)), _mm_shuffle_epi8(c, c2));
}

static void load_u8(uint8_t *dst, ptrdiff_t row, ptrdiff_t plane, const struct stk_image *src, bool mirror)
{
	const __m128i reverse = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
	bool rgb = src->channels == 3 && src->pixel == 3 && src->channel == 1;
	if (src->width < 16 || (!rgb && src->pixel != 1)) {
		load_u8_any(dst, row, plane, src, mirror);
		return;
	}
	int32_t runs = rgb ? 1 : src->channels;
	for (int32_t r = 0; r < src->height; r++)
		for (int32_t k = 0; k < runs; k++) {
			const uint8_t *from = (const uint8_t *)src->data + r * src->row + k * src->channel;
			uint8_t *to = dst + r * row + k * plane;
			for (int32_t x = 0; x < src->width; x += 16) {
				if (x + 16 > src->width) /* the last piece overlaps the previous one */
					x = src->width - 16;
				__m128i out[3];
				if (rgb)
					split3(from + 3 * x, out);
				else
					out[0] = load16(from + x);
				int32_t at = mirror ? src->width - 16 - x : x;
				for (int c = 0; c < (rgb ? 3 : 1); c++)
					_mm_storeu_si128(
						(void *)(to + c * plane + at), mirror ? _mm_shuffle_epi8(out[c], reverse) : out[c]);
			}
		}
}

/* Joins three channels of 16 bytes to 48 bytes of pixels at `dst`. */
static inline void join3(uint8_t *dst, __m128i r, __m128i g, __m128i b)
{
	const __m128i r0 = _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5);
	const __m128i r1 = _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1);
	const __m128i r2 = _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1);
	const __m128i g0 = _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1);
	const __m128i g1 = _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10);
	const __m128i g2 = _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1);
	const __m128i b0 = _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1);
	const __m128i b1 = _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1);
	const __m128i b2 = _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15);
	_mm_storeu_si128(
		(void *)dst, _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, r0), _mm_shuffle_epi8(g, g0)), _mm_shuffle_epi8(b, b0)));
	_mm_storeu_si128(
		(void *)(dst + 16), _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, r1), _mm_shuffle_epi8(g, g1)), _mm_shuffle_epi8(b, b1)));
	_mm_storeu_si128(
		(void *)(dst + 32), _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, r2), _mm_shuffle_epi8(g, g2)), _mm_shuffle_epi8(b, b2)));
}

static void interleave(void *dst, const void *src, ptrdiff_t plane, int32_t n, int32_t channels, size_t element)
{
	if (channels != 3 || element != 1 || n < 16) {
		interleave_any(dst, src, plane, n, channels, element);
		return;
	}
	const uint8_t *r = src, *g = r + plane, *b = g + plane;
	for (int32_t x = 0; x < n; x += 16) {
		if (x + 16 > n)
			x = n - 16;
		join3((uint8_t *)dst + 3 * x, load16(r + x), load16(g + x), load16(b + x));
	}
}

const struct stk_row_kernels stk__row_kernels_avx2 = {
	.load_u8 = load_u8,
	.affine_u8 = {affine_u8_float, affine_u8_half, affine_u8_bfloat, affine_u8_byte},
	.interleave = interleave,
	.widen_u8 = widen_u8,
	.affine = affine,
	.matrix = matrix,
	.gray = gray,
	.round = round_row,
	.store = store_row,
};
