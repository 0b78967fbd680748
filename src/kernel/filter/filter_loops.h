/* SPDX-License-Identifier: Apache-2.0
 * The loops of filters, compiled for the processor that the including file selects. They use the compiler's vector types, and compute BLOCK values at a
 * time: a constant number of vectors, so that inner loops can be unrolled. The terms of a sum are added in the same order in each lane, so all processors
 * give the same bits. */
#include "kernel/filter/filter_run.h"

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { SETS = 6, BLOCK = LANES * SETS };
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t words __attribute__((vector_size(4 * LANES)));

static inline lanes load(const float *p)
{
	lanes x;
	memcpy(&x, p, sizeof x);
	return x;
}

/* Returns x where the mask is set, otherwise y. */
static inline words choose(words mask, words x, words y)
{
	return (x & mask) | (y & ~mask);
}

static void load_bytes(float *restrict out, const uint8_t *restrict in, int n)
{
	for (int i = 0; i < n; i++)
		out[i] = (float)in[i];
}

/* Returns the values rounded to the nearest integers from 0 to 255. Halves are rounded up; NaN becomes 0. */
static inline words to_bytes(lanes x)
{
	x = (lanes)((words)x & (x > 0));
	x = (lanes)choose(x < 255, (words)x, (words)((lanes){0} + 255));
	words whole = __builtin_convertvector(x, words);
	return whole - (x - __builtin_convertvector(whole, lanes) >= 0.5f); /* a comparison that is true gives -1 */
}

static void store_bytes(uint8_t *restrict out, const float *restrict in, int n)
{
	typedef uint8_t bytes __attribute__((vector_size(LANES)));
	int i = 0;
#ifdef __AVX2__ /* without this, the compiler would extract lanes one by one */
	for (; i + 32 <= n; i += 32) {
		const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
		__m256i a = (__m256i)to_bytes(load(in + i)), b = (__m256i)to_bytes(load(in + i + 8));
		__m256i c = (__m256i)to_bytes(load(in + i + 16)), d = (__m256i)to_bytes(load(in + i + 24));
		a = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
		_mm256_storeu_si256((void *)(out + i), _mm256_permutevar8x32_epi32(a, order));
	}
#endif
	for (; i + LANES <= n; i += LANES) {
		bytes b = __builtin_convertvector(to_bytes(load(in + i)), bytes);
		memcpy(out + i, &b, sizeof b);
	}
	for (; i < n; i++) {
		lanes one = {in[i]};
		out[i] = (uint8_t)to_bytes(one)[0];
	}
}

static void sum(float *restrict out, const float *const *taps, const float *weights, int n_taps, int n)
{
	int i = 0;
	for (; i + BLOCK <= n; i += BLOCK) {
		lanes total[SETS];
#pragma GCC unroll 6
		for (int s = 0; s < SETS; s++)
			total[s] = weights[0] * load(taps[0] + i + s * LANES);
		for (int t = 1; t < n_taps; t++) {
			const float *tap = taps[t] + i, w = weights[t];
#pragma GCC unroll 6
			for (int s = 0; s < SETS; s++)
				total[s] += w * load(tap + s * LANES);
		}
		memcpy(out + i, total, sizeof total);
	}
	for (; i < n; i++) {
		float total = weights[0] * taps[0][i];
		for (int t = 1; t < n_taps; t++)
			total += weights[t] * taps[t][i];
		out[i] = total;
	}
}

#define EXTREME(name, compare)                                                                                                             \
	static void name(float *restrict out, const float *const *taps, int n_taps, int n)                                                 \
	{                                                                                                                                  \
		int i = 0;                                                                                                                 \
		for (; i + BLOCK <= n; i += BLOCK) {                                                                                       \
			lanes best[SETS];                                                                                                  \
			memcpy(best, taps[0] + i, sizeof best);                                                                            \
			for (int t = 1; t < n_taps; t++)                                                                                   \
				_Pragma("GCC unroll 6") for (int s = 0; s < SETS; s++)                                                     \
				{                                                                                                          \
					lanes x = load(taps[t] + i + s * LANES);                                                           \
					best[s] = (lanes)choose(x compare best[s], (words)x, (words)best[s]);                              \
				}                                                                                                          \
			memcpy(out + i, best, sizeof best);                                                                                \
		}                                                                                                                          \
		for (; i < n; i++) {                                                                                                       \
			float best = taps[0][i];                                                                                           \
			for (int t = 1; t < n_taps; t++)                                                                                   \
				best = taps[t][i] compare best ? taps[t][i] : best;                                                        \
			out[i] = best;                                                                                                     \
		}                                                                                                                          \
	}
EXTREME(least, <)
EXTREME(largest, >)

/* Converts the bits of floats to integers in the same order, or back: inverts the bits below the sign if the sign is set. */
static inline words ranks(words bits)
{
	return bits ^ ((bits >> 31) & 0x7fffffff);
}

static inline void exchange(words *small, words *large)
{
	words mask = *small > *large, least = choose(mask, *large, *small);
	*large = choose(mask, *small, *large);
	*small = least;
}

enum { MOST_TAPS = STK_FILTER_MOST_MEDIAN };

/* Returns the median of n values. n is odd; v is overwritten. Among any n / 2 + 2 of the values, the minimum and the maximum cannot be the median: drops
 * both, adds the next value, and repeats this until three are left. */
static words middle(words *v, int n)
{
	int next = n / 2 + 2;
	for (int m = next; m >= 3; m--) {
		for (int i = 1; i < m; i++)
			exchange(&v[0], &v[i]);
		for (int i = 1; i < m - 1; i++)
			exchange(&v[i], &v[m - 1]);
		if (m > 3)
			v[0] = v[next++];
	}
	return v[n > 1];
}

static void median(float *restrict out, const float *const *taps, int n_taps, int n)
{
	words v[MOST_TAPS];
	for (int i = 0; i < n; i += LANES) {
		int count = n - i < LANES ? n - i : LANES;
		for (int t = 0; t < n_taps; t++) {
			v[t] = (words){0};
			memcpy(&v[t], taps[t] + i, (size_t)count * sizeof(float));
			v[t] = ranks(v[t]);
		}
		words bits = ranks(middle(v, n_taps));
		memcpy(out + i, &bits, (size_t)count * sizeof(float));
	}
}
