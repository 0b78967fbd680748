/* SPDX-License-Identifier: Apache-2.0
 * assign_loops.h with AVX2: processes four or eight columns at a time, and the remaining ones as in plain C. Results are the same because a minimum does not
 * depend on the order of the columns. */
#include "ragged/assign_loops.h"

#include <immintrin.h>
#include <math.h>

#define LOAD_F32(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define LOAD_F64(p) _mm256_loadu_pd(p)

static inline double least_of(__m256d v, double least)
{
	double lane[4];
	_mm256_storeu_pd(lane, v);
	for (int i = 0; i < 4; i++)
		least = lane[i] < least ? lane[i] : least;
	return least;
}

#define ROW_LOOPS(suffix, type, LOAD)                                                                                                      \
	static double first_##suffix(const struct stk_assign_row *r, bool *valid)                                                          \
	{                                                                                                                                  \
		const type *cost = r->cost;                                                                                                \
		const __m256d so_far = _mm256_set1_pd(r->so_far), dual = _mm256_set1_pd(r->row_dual), minus = _mm256_set1_pd(-INFINITY);   \
		__m256d low = _mm256_set1_pd(INFINITY), good = _mm256_cmp_pd(minus, minus, _CMP_EQ_OQ);                                    \
		int32_t j = 0;                                                                                                             \
		for (; j + 4 <= r->n; j += 4) {                                                                                            \
			__m256d c = LOAD(cost + j);                                                                                        \
			good = _mm256_and_pd(good, _mm256_cmp_pd(c, minus, _CMP_GT_OQ));                                                   \
			c = _mm256_sub_pd(_mm256_sub_pd(_mm256_add_pd(so_far, c), dual), _mm256_loadu_pd(r->price + j));                   \
			_mm256_storeu_pd(r->path_cost + j, c);                                                                             \
			low = _mm256_min_pd(c, low);                                                                                       \
		}                                                                                                                          \
		double least = least_of(low, INFINITY);                                                                                    \
		*valid &= _mm256_movemask_pd(good) == 15;                                                                                  \
		for (; j < r->n; j++) {                                                                                                    \
			double value = ((r->so_far + (double)cost[j]) - r->row_dual) - r->price[j];                                        \
			*valid &= cost[j] > (type)-INFINITY;                                                                               \
			r->path_cost[j] = value;                                                                                           \
			least = value < least ? value : least;                                                                             \
		}                                                                                                                          \
		return least;                                                                                                              \
	}                                                                                                                                  \
	static double next_##suffix(const struct stk_assign_row *r)                                                                        \
	{                                                                                                                                  \
		const type *cost = r->cost;                                                                                                \
		const __m256d so_far = _mm256_set1_pd(r->so_far), dual = _mm256_set1_pd(r->row_dual);                                      \
		__m256d low = _mm256_set1_pd(INFINITY);                                                                                    \
		int32_t j = 0;                                                                                                             \
		for (; j + 4 <= r->n; j += 4) {                                                                                            \
			__m256d old = _mm256_loadu_pd(r->path_cost + j);                                                                   \
			__m256d c =                                                                                                        \
				_mm256_sub_pd(_mm256_sub_pd(_mm256_add_pd(so_far, LOAD(cost + j)), dual), _mm256_loadu_pd(r->price + j));  \
			int closer = _mm256_movemask_pd(_mm256_cmp_pd(c, old, _CMP_LT_OQ));                                                \
			c = _mm256_min_pd(c, old);                                                                                         \
			low = _mm256_min_pd(c, low);                                                                                       \
			if (closer) {                                                                                                      \
				_mm256_storeu_pd(r->path_cost + j, c);                                                                     \
				for (; closer; closer &= closer - 1)                                                                       \
					r->path[j + __builtin_ctz((unsigned)closer)] = r->row;                                             \
			}                                                                                                                  \
		}                                                                                                                          \
		double least = least_of(low, INFINITY);                                                                                    \
		for (; j < r->n; j++) {                                                                                                    \
			double value = ((r->so_far + (double)cost[j]) - r->row_dual) - r->price[j];                                        \
			if (value < r->path_cost[j]) {                                                                                     \
				r->path_cost[j] = value;                                                                                   \
				r->path[j] = r->row;                                                                                       \
			}                                                                                                                  \
			least = r->path_cost[j] < least ? r->path_cost[j] : least;                                                         \
		}                                                                                                                          \
		return least;                                                                                                              \
	}
ROW_LOOPS(f32, float, LOAD_F32)
ROW_LOOPS(f64, double, LOAD_F64)

static int32_t pick(const double *path_cost, double least, const int32_t *owner, const int32_t *position, int32_t n)
{
	const __m256d want = _mm256_set1_pd(least);
	int32_t best = -1, j = 0;
	for (; j + 8 <= n; j += 8) {
		__m256d a = _mm256_cmp_pd(_mm256_loadu_pd(path_cost + j), want, _CMP_EQ_OQ);
		__m256d b = _mm256_cmp_pd(_mm256_loadu_pd(path_cost + j + 4), want, _CMP_EQ_OQ);
		int hits = _mm256_movemask_pd(a) | _mm256_movemask_pd(b) << 4;
		for (; hits; hits &= hits - 1) {
			int32_t at = j + __builtin_ctz((unsigned)hits);
			if (stk__assign_prefers(at, best, owner, position))
				best = at;
		}
	}
	for (; j < n; j++) {
		if (path_cost[j] == least && stk__assign_prefers(j, best, owner, position))
			best = j;
	}
	return best;
}

static inline void transpose_8x8(const float *in, int64_t in_stride, float *out, int64_t out_stride)
{
	__m256 a[8], b[8];
	for (int i = 0; i < 8; i++)
		a[i] = _mm256_loadu_ps(in + i * in_stride);
	for (int i = 0; i < 8; i += 2) {
		b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
		b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
	}
	for (int i = 0; i < 8; i += 4) {
		a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
		a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
		a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
		a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
	}
	for (int i = 0; i < 4; i++) {
		_mm256_storeu_ps(out + i * out_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
		_mm256_storeu_ps(out + (i + 4) * out_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
	}
}

static void transpose(const float *in, int64_t in_stride, float *out, int32_t rows, int32_t cols)
{
	int32_t r = 0;
	for (; r + 8 <= rows; r += 8) {
		int32_t c = 0;
		for (; c + 8 <= cols; c += 8)
			transpose_8x8(in + r * in_stride + c, in_stride, out + (int64_t)c * rows + r, rows);
		for (; c < cols; c++) {
			for (int32_t i = r; i < r + 8; i++)
				out[(int64_t)c * rows + i] = in[i * in_stride + c];
		}
	}
	for (; r < rows; r++) {
		for (int32_t c = 0; c < cols; c++)
			out[(int64_t)c * rows + r] = in[r * in_stride + c];
	}
}

const struct stk_assign_kernels stk__assign_kernels_avx2 = {
	.f32 = {first_f32, next_f32}, .f64 = {first_f64, next_f64}, .pick = pick, .transpose = transpose};
