/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/resample.h"

#include "kernel/common/avx2.h"
#include <stdbool.h>
#include <string.h>

/* maximum number of channels in horizontal_narrow; images with more use the plain C kernel */
#define NARROW_CHANNELS 4

static inline __m128i load16(const void *p)
{
	return _mm_loadu_si128(p);
}

static inline __m256i load32(const void *p)
{
	return _mm256_load_si256(p);
}

/* The runs of adjacent columns in v: one run for interleaved pixels, one run for each channel for planar pixels. find_runs returns false for other strides. */
struct runs {
	int32_t count, columns;
	ptrdiff_t src_step, out_step; /* distances: of runs in the source, in bytes; of a run's columns in the block, in columns */
};

static inline bool find_runs(const struct stk_vertical *v, ptrdiff_t element, struct runs *runs)
{
	if (v->channel == element && v->pixel == element * v->channels)
		*runs = (struct runs){1, v->width * v->channels, 0, 1};
	else if (v->pixel == element)
		*runs = (struct runs){v->channels, v->width, v->channel, v->channels};
	else
		return false;
	return true;
}

/* Transposes eight rows of 16 uint16: stores the eight rows of column k at out + k * pitch. */
static inline void turn_8x16(const __m256i a[8], uint16_t *out, ptrdiff_t pitch)
{
	__m256i b0 = _mm256_unpacklo_epi16(a[0], a[1]), b1 = _mm256_unpackhi_epi16(a[0], a[1]);
	__m256i b2 = _mm256_unpacklo_epi16(a[2], a[3]), b3 = _mm256_unpackhi_epi16(a[2], a[3]);
	__m256i b4 = _mm256_unpacklo_epi16(a[4], a[5]), b5 = _mm256_unpackhi_epi16(a[4], a[5]);
	__m256i b6 = _mm256_unpacklo_epi16(a[6], a[7]), b7 = _mm256_unpackhi_epi16(a[6], a[7]);
	__m256i c0 = _mm256_unpacklo_epi32(b0, b2), c1 = _mm256_unpackhi_epi32(b0, b2);
	__m256i c2 = _mm256_unpacklo_epi32(b4, b6), c3 = _mm256_unpackhi_epi32(b4, b6);
	__m256i c4 = _mm256_unpacklo_epi32(b1, b3), c5 = _mm256_unpackhi_epi32(b1, b3);
	__m256i c6 = _mm256_unpacklo_epi32(b5, b7), c7 = _mm256_unpackhi_epi32(b5, b7);
	__m256i d[8] = {_mm256_unpacklo_epi64(c0, c2), _mm256_unpackhi_epi64(c0, c2), _mm256_unpacklo_epi64(c1, c3),
		_mm256_unpackhi_epi64(c1, c3), _mm256_unpacklo_epi64(c4, c6), _mm256_unpackhi_epi64(c4, c6), _mm256_unpacklo_epi64(c5, c7),
		_mm256_unpackhi_epi64(c5, c7)};
	for (int k = 0; k < 8; k++) {
		_mm_store_si128((void *)(out + k * pitch), _mm256_castsi256_si128(d[k]));
		_mm_store_si128((void *)(out + (k + 8) * pitch), _mm256_extracti128_si256(d[k], 1));
	}
}

/* Computes 32 columns of one output row: *even and *odd get those with even and odd numbers, since the bytes of odd columns are already in the upper halves of
 * 16-bit words. wide[t] contains weight t 16 times. */
static inline void narrow_row(const uint8_t *p, ptrdiff_t tap, const __m256i *wide, int32_t n, __m256i start, __m256i *even, __m256i *odd)
{
	const __m256i upper = _mm256_set1_epi16((short)0xff00);
	__m256i e = start, o = start;
	for (int32_t t = 0; t < n; t++, p += tap) {
		__m256i x = _mm256_loadu_si256((const void *)p), weight = load32(wide + t);
		e = _mm256_add_epi16(e, _mm256_mulhi_epu16(_mm256_slli_epi16(x, 8), weight));
		o = _mm256_add_epi16(o, _mm256_mulhi_epu16(_mm256_and_si256(x, upper), weight));
	}
	*even = e;
	*odd = o;
}

static inline __attribute__((always_inline)) void narrow_run(
	const struct stk_vertical *v, int32_t columns, const uint8_t *src, uint16_t *out, const __m256i *wide, int32_t n, ptrdiff_t pitch)
{
	const __m256i start = _mm256_set1_epi16((short)v->bias);
	for (int32_t x = 0; x < columns; x += 32, out += 32 * pitch)
		for (int half = 0; half < STK_BLOCK_ROWS; half += 8) {
			__m256i even[8], odd[8];
			for (int r = 0; r < 8; r++)
				narrow_row(src + v->row[half + r] + x, v->tap, wide + (half + r) * n, n, start, &even[r], &odd[r]);
			turn_8x16(even, out + half, 2 * pitch);
			turn_8x16(odd, out + half + pitch, 2 * pitch);
		}
}

/* Computes interleaved columns with a loop that is unrolled for v->n taps. Returns false, and does nothing, if there is no such loop. */
static bool narrow_interleaved(const struct stk_vertical *v, int32_t columns, uint16_t *block, const __m256i *wide)
{
#define UNROLLED(taps)                                                                                                                     \
	case taps:                                                                                                                         \
		narrow_run(v, columns, v->src, block, wide, taps, STK_BLOCK_ROWS);                                                         \
		return true;
	switch (v->n) {
		UNROLLED(2)
		UNROLLED(3)
		UNROLLED(4)
		UNROLLED(5)
		UNROLLED(6)
	default:
		return false;
	}
#undef UNROLLED
}

static void vertical_narrow(const struct stk_vertical *v, void *block)
{
	struct runs runs;
	if (!find_runs(v, 1, &runs)) {
		stk__resample_kernels_c.vertical[STK_NARROW](v, block);
		return;
	}
	__m256i wide[STK_BLOCK_ROWS * STK_NARROW_TAPS];
	const uint16_t *w = v->weights;
	for (int32_t i = 0; i < STK_BLOCK_ROWS * v->n; i++)
		wide[i] = _mm256_set1_epi16((short)w[i]);
	if (runs.out_step == 1 && narrow_interleaved(v, runs.columns, block, wide))
		return;
	for (int32_t k = 0; k < runs.count; k++)
		narrow_run(v, runs.columns, v->src + k * runs.src_step, (uint16_t *)block + k * STK_BLOCK_ROWS, wide, v->n,
			runs.out_step * STK_BLOCK_ROWS);
}

/* Returns 16 columns of one output row, summed two taps at a time. */
static inline __m256i wide_row(const uint8_t *p, ptrdiff_t tap, const int16_t *w, int32_t n, __m256i start, __m128i shift)
{
	__m256i low = start, high = start;
	for (int32_t t = 0; t < n; t += 2, p += 2 * tap) {
		bool pair = t + 1 < n;
		__m128i a = load16(p), b = pair ? load16(p + tap) : a;
		uint32_t both = (uint16_t)w[t] | (pair ? (uint32_t)(uint16_t)w[t + 1] << 16 : 0);
		__m256i weights = _mm256_set1_epi32((int)both);
		low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), weights));
		high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), weights));
	}
	return _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_sra_epi32(low, shift), _mm256_sra_epi32(high, shift)), 0xd8);
}

static void vertical_wide(const struct stk_vertical *v, void *block)
{
	struct runs runs;
	if (!find_runs(v, 1, &runs)) {
		stk__resample_kernels_c.vertical[STK_WIDE](v, block);
		return;
	}
	int bits = v->shift - STK_WIDE_BITS;
	const __m256i start = _mm256_set1_epi32(1 << (bits - 1));
	const __m128i shift = _mm_cvtsi32_si128(bits);
	ptrdiff_t pitch = runs.out_step * STK_BLOCK_ROWS;
	for (int32_t k = 0; k < runs.count; k++) {
		const uint8_t *src = v->src + k * runs.src_step;
		uint16_t *out = (uint16_t *)block + k * STK_BLOCK_ROWS;
		for (int32_t x = 0; x < runs.columns; x += 16, out += 16 * pitch)
			for (int half = 0; half < STK_BLOCK_ROWS; half += 8) {
				__m256i rows[8];
				for (int r = 0; r < 8; r++)
					rows[r] = wide_row(src + v->row[half + r] + x, v->tap,
						(const int16_t *)v->weights + (half + r) * v->n, v->n, start, shift);
				turn_8x16(rows, out + half, pitch);
			}
	}
}

/* Transposes eight rows of 8 floats: stores the eight rows of column k at out + k * pitch. */
static inline void turn_8x8(const __m256 a[8], float *out, ptrdiff_t pitch)
{
	__m256 b[8], c[8];
	for (int k = 0; k < 4; k++) {
		b[2 * k] = _mm256_unpacklo_ps(a[2 * k], a[2 * k + 1]);
		b[2 * k + 1] = _mm256_unpackhi_ps(a[2 * k], a[2 * k + 1]);
	}
	for (int k = 0; k < 2; k++) {
		c[4 * k] = _mm256_shuffle_ps(b[4 * k], b[4 * k + 2], 0x44);
		c[4 * k + 1] = _mm256_shuffle_ps(b[4 * k], b[4 * k + 2], 0xee);
		c[4 * k + 2] = _mm256_shuffle_ps(b[4 * k + 1], b[4 * k + 3], 0x44);
		c[4 * k + 3] = _mm256_shuffle_ps(b[4 * k + 1], b[4 * k + 3], 0xee);
	}
	for (int k = 0; k < 4; k++) {
		_mm256_storeu_ps(out + k * pitch, _mm256_permute2f128_ps(c[k], c[k + 4], 0x20));
		_mm256_storeu_ps(out + (k + 4) * pitch, _mm256_permute2f128_ps(c[k], c[k + 4], 0x31));
	}
}

static inline __m256 float_row(const uint8_t *p, bool bytes, ptrdiff_t tap, const float *w, int32_t n)
{
	__m256 sum = _mm256_setzero_ps();
	for (int32_t t = 0; t < n; t++, p += tap) {
		__m256 x = bytes ? _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)))
				 : _mm256_loadu_ps((const void *)p);
		sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_broadcast_ss(w + t), x));
	}
	return sum;
}

static inline void float_runs(const struct stk_vertical *v, const struct runs *runs, bool bytes, void *block)
{
	ptrdiff_t pitch = runs->out_step * STK_BLOCK_ROWS, element = bytes ? 1 : sizeof(float);
	for (int32_t k = 0; k < runs->count; k++) {
		const uint8_t *src = v->src + k * runs->src_step;
		float *out = (float *)block + k * STK_BLOCK_ROWS;
		for (int32_t x = 0; x < runs->columns; x += 8, out += 8 * pitch)
			for (int half = 0; half < STK_BLOCK_ROWS; half += 8) {
				__m256 rows[8];
				for (int r = 0; r < 8; r++)
					rows[r] = float_row(src + v->row[half + r] + x * element, bytes, v->tap,
						(const float *)v->weights + (half + r) * v->n, v->n);
				turn_8x8(rows, out + half, pitch);
			}
	}
}

static void vertical_float(const struct stk_vertical *v, void *block)
{
	struct runs runs;
	if (find_runs(v, sizeof(float), &runs))
		float_runs(v, &runs, false, block);
	else
		stk__resample_kernels_c.vertical[STK_RESAMPLE_FLOAT](v, block);
}

static void vertical_u8_float(const struct stk_vertical *v, void *block)
{
	struct runs runs;
	if (find_runs(v, 1, &runs))
		float_runs(v, &runs, true, block);
	else
		stk__resample_kernels_c.vertical_u8_float(v, block);
}

/* Transposes 16 columns of 16 rows, values 0 .. 255 in uint16, to 16 rows of 16 bytes, and stores them `row` bytes apart. */
static inline void store_transposed(const __m256i v[16], uint8_t *dst, ptrdiff_t row)
{
	__m256i a[8], b[8];
	for (int k = 0; k < 8; k++) /* each half of a register: column k's eight rows, then those of column k + 8 */
		a[k] = _mm256_packus_epi16(v[k], v[k + 8]);
	for (int k = 0; k < 4; k++) { /* columns k and k + 4 alternate */
		b[k] = _mm256_unpacklo_epi8(a[k], a[k + 4]);
		b[k + 4] = _mm256_unpackhi_epi8(a[k], a[k + 4]);
	}
	for (int k = 0; k < 2; k++) {
		a[k] = _mm256_unpacklo_epi8(b[k], b[k + 2]);
		a[k + 2] = _mm256_unpackhi_epi8(b[k], b[k + 2]);
		a[k + 4] = _mm256_unpacklo_epi8(b[k + 4], b[k + 6]);
		a[k + 6] = _mm256_unpackhi_epi8(b[k + 4], b[k + 6]);
	}
	for (int k = 0; k < 8; k += 2) { /* rows 2q, 2q + 1: columns 0 .. 7 from a[0..3], 8 .. 15 from a[4..7] */
		b[k] = _mm256_unpacklo_epi8(a[k], a[k + 1]);
		b[k + 1] = _mm256_unpackhi_epi8(a[k], a[k + 1]);
	}
	for (int k = 0; k < 4; k++) {
		__m256i even = _mm256_unpacklo_epi64(b[k], b[k + 4]), odd = _mm256_unpackhi_epi64(b[k], b[k + 4]);
		_mm_storeu_si128((void *)(dst + (2 * k) * row), _mm256_castsi256_si128(even));
		_mm_storeu_si128((void *)(dst + (2 * k + 1) * row), _mm256_castsi256_si128(odd));
		_mm_storeu_si128((void *)(dst + (2 * k + 8) * row), _mm256_extracti128_si256(even, 1));
		_mm_storeu_si128((void *)(dst + (2 * k + 9) * row), _mm256_extracti128_si256(odd, 1));
	}
}

/* Returns x, 8.8 fixed point, rounded to the nearest integer, halves to even. */
static inline __m256i round_even(__m256i x)
{
	__m256i odd = _mm256_and_si256(_mm256_srli_epi16(x, 8), _mm256_set1_epi16(1));
	return _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(x, odd), _mm256_set1_epi16(127)), 8);
}

/* Computes 16 output columns of all channels. A column's weights are loaded once for all channels. */
static inline void narrow_columns(const struct stk_horizontal *h, int32_t n, int32_t channels)
{
	const __m256i start = _mm256_set1_epi16((short)h->bias);
	ptrdiff_t step = (ptrdiff_t)h->step * channels * STK_BLOCK_ROWS;
	const uint16_t *w = h->weights;
	for (int32_t x = 0; x < h->count; x += 16) {
		__m256i v[NARROW_CHANNELS][16];
		for (int k = 0; k < 16; k++, w += n) {
			const uint16_t *column =
				(const uint16_t *)h->block + (ptrdiff_t)(h->first[x + k] - h->origin) * channels * STK_BLOCK_ROWS;
			__m256i sum[NARROW_CHANNELS];
			for (int32_t c = 0; c < channels; c++)
				sum[c] = start;
			for (int32_t t = 0; t < n; t++, column += step) {
				__m256i weight = _mm256_set1_epi16((short)w[t]);
				for (int32_t c = 0; c < channels; c++)
					sum[c] = _mm256_add_epi16(sum[c], _mm256_mulhi_epu16(load32(column + c * STK_BLOCK_ROWS), weight));
			}
			for (int32_t c = 0; c < channels; c++)
				v[c][k] = round_even(sum[c]);
		}
		for (int32_t c = 0; c < channels; c++)
			store_transposed(v[c], (uint8_t *)h->dst + c * h->plane + x, h->row);
	}
}

static void horizontal_narrow(const struct stk_horizontal *h)
{
	if (h->channels == 3) { /* unrolled for the usual numbers of taps */
		if (h->n == 2)
			narrow_columns(h, 2, 3);
		else if (h->n == 3)
			narrow_columns(h, 3, 3);
		else if (h->n == 4)
			narrow_columns(h, 4, 3);
		else if (h->n == 5)
			narrow_columns(h, 5, 3);
		else
			narrow_columns(h, h->n, 3);
	} else if (h->channels == 1) {
		narrow_columns(h, h->n, 1);
	} else if (h->channels <= NARROW_CHANNELS) {
		narrow_columns(h, h->n, h->channels);
	} else {
		stk__resample_kernels_c.horizontal[STK_NARROW](h);
	}
}

static void horizontal_wide(const struct stk_horizontal *h)
{
	int bits = h->shift + STK_WIDE_BITS;
	const __m256i start = _mm256_set1_epi32(1 << (bits - 1));
	const __m128i shift = _mm_cvtsi32_si128(bits);
	const __m256i most = _mm256_set1_epi16(255);
	ptrdiff_t step = (ptrdiff_t)h->step * h->channels * STK_BLOCK_ROWS;
	for (int32_t x = 0; x < h->count; x += 16)
		for (int32_t c = 0; c < h->channels; c++) {
			__m256i v[16];
			for (int k = 0; k < 16; k++) {
				const int16_t *w = (const int16_t *)h->weights + (ptrdiff_t)(x + k) * h->n;
				const int16_t *column = (const int16_t *)h->block +
							((ptrdiff_t)(h->first[x + k] - h->origin) * h->channels + c) * STK_BLOCK_ROWS;
				__m256i low = start, high = start;
				for (int32_t t = 0; t < h->n; t += 2, column += 2 * step) {
					bool pair = t + 1 < h->n;
					__m256i a = load32(column), b = pair ? load32(column + step) : a;
					uint32_t both = (uint16_t)w[t] | (pair ? (uint32_t)(uint16_t)w[t + 1] << 16 : 0);
					__m256i weights = _mm256_set1_epi32((int)both);
					low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weights));
					high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weights));
				}
				__m256i sum = _mm256_packus_epi32(_mm256_sra_epi32(low, shift), _mm256_sra_epi32(high, shift));
				v[k] = _mm256_min_epu16(sum, most);
			}
			store_transposed(v, (uint8_t *)h->dst + c * h->plane + x, h->row);
		}
}

static void horizontal_float(const struct stk_horizontal *h)
{
	float *dst = h->dst;
	ptrdiff_t step = (ptrdiff_t)h->step * h->channels * STK_BLOCK_ROWS;
	for (int32_t x = 0; x < h->count; x += 8)
		for (int32_t c = 0; c < h->channels; c++)
			for (int half = 0; half < STK_BLOCK_ROWS; half += 8) {
				__m256 v[8];
				for (int k = 0; k < 8; k++) {
					const float *w = (const float *)h->weights + (ptrdiff_t)(x + k) * h->n;
					const float *column =
						(const float *)h->block +
						((ptrdiff_t)(h->first[x + k] - h->origin) * h->channels + c) * STK_BLOCK_ROWS + half;
					__m256 sum = _mm256_setzero_ps();
					for (int32_t t = 0; t < h->n; t++, column += step)
						sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_broadcast_ss(w + t), _mm256_load_ps(column)));
					v[k] = sum;
				}
				turn_8x8(v, dst + c * h->plane + half * h->row + x, h->row);
			}
}

const struct stk_resample_kernels stk__resample_kernels_avx2 = {
	.vertical = {vertical_narrow, vertical_wide, vertical_float},
	.vertical_u8_float = vertical_u8_float,
	.horizontal = {horizontal_narrow, horizontal_wide, horizontal_float},
};
