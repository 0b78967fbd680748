/* SPDX-License-Identifier: Apache-2.0
 * A vector of eight floats, and moves between such vectors and rows in memory. Each lane of a vector computes for its own row. */
#ifndef STK_KERNEL_COMMON_LANES_H
#define STK_KERNEL_COMMON_LANES_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX2__
#include "kernel/common/avx2.h"
#endif

enum { STK_LANES = 8 };
typedef float stk_lanes __attribute__((vector_size(4 * STK_LANES)));

#define STK_LANES_INLINE static inline __attribute__((always_inline))

#ifdef __AVX2__
/* Transposes eight vectors: element k of vector l becomes element l of vector k. */
STK_LANES_INLINE void stk__lanes_transpose(stk_lanes *v)
{
	__m256 a[8], b[8];
	for (int i = 0; i < 8; i += 2) {
		a[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
		a[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
	}
	for (int i = 0; i < 8; i += 4)
		for (int k = 0; k < 2; k++) {
			b[i + 2 * k] = _mm256_shuffle_ps(a[i + k], a[i + 2 + k], 0x44);
			b[i + 2 * k + 1] = _mm256_shuffle_ps(a[i + k], a[i + 2 + k], 0xee);
		}
	for (int i = 0; i < 4; i++) {
		v[i] = (stk_lanes)_mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
		v[i + 4] = (stk_lanes)_mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
	}
}
#else
STK_LANES_INLINE void stk__lanes_transpose(stk_lanes *v)
{
	float x[STK_LANES][STK_LANES], y[STK_LANES][STK_LANES];
	memcpy(x, v, sizeof x);
	for (int i = 0; i < STK_LANES; i++)
		for (int k = 0; k < STK_LANES; k++)
			y[k][i] = x[i][k];
	memcpy(v, y, sizeof y);
}
#endif

/* Reads elements k to k + 3 of each of eight rows: to[i] gets element k + i of all rows. */
#ifdef __AVX2__
STK_LANES_INLINE void stk__lanes_load4(stk_lanes to[4], const float *const rows[STK_LANES], int64_t k)
{
	__m256 r[4], t[4];
	for (int i = 0; i < 4; i++)
		r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(rows[i] + k)), _mm_loadu_ps(rows[i + 4] + k), 1);
	for (int i = 0; i < 2; i++) {
		t[i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
		t[i + 2] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
	}
	for (int i = 0; i < 2; i++) {
		to[2 * i] = (stk_lanes)_mm256_shuffle_ps(t[2 * i], t[2 * i + 1], 0x44);
		to[2 * i + 1] = (stk_lanes)_mm256_shuffle_ps(t[2 * i], t[2 * i + 1], 0xee);
	}
}
#else
STK_LANES_INLINE void stk__lanes_load4(stk_lanes to[4], const float *const rows[STK_LANES], int64_t k)
{
	for (int i = 0; i < 4; i++)
		for (int l = 0; l < STK_LANES; l++)
			to[i][l] = rows[l][k + i];
}
#endif

/* Reads n elements of each of eight rows: to[k] gets element k of all rows, multiplied by factors[k] unless `factors` is NULL. */
STK_LANES_INLINE void stk__lanes_load_rows(stk_lanes *to, const float *const rows[STK_LANES], int64_t n, const float *factors)
{
	int64_t k = 0;
	for (; k + 4 <= n; k += 4) {
		stk_lanes v[4];
		stk__lanes_load4(v, rows, k);
		for (int i = 0; i < 4; i++)
			to[k + i] = factors ? v[i] * factors[k + i] : v[i];
	}
	for (; k < n; k++)
		for (int l = 0; l < STK_LANES; l++)
			to[k][l] = factors ? rows[l][k] * factors[k] : rows[l][k];
}

/* Writes n elements of each of the first `count` lanes: from[k] has element k of all lanes. Lane l is stored at rows + l * pitch. */
STK_LANES_INLINE void stk__lanes_store_rows(float *rows, int64_t pitch, const stk_lanes *from, int64_t n, int count)
{
	int64_t k = 0;
	for (; k + STK_LANES <= n; k += STK_LANES) {
		stk_lanes v[STK_LANES];
		for (int l = 0; l < STK_LANES; l++)
			v[l] = from[k + l];
		stk__lanes_transpose(v);
		for (int l = 0; l < count; l++)
			memcpy(rows + l * pitch + k, &v[l], sizeof v[l]);
	}
	for (; k < n; k++)
		for (int l = 0; l < count; l++)
			rows[l * pitch + k] = from[k][l];
}

#endif
