/* SPDX-License-Identifier: Apache-2.0 */
#define stk__flac_plain stk__flac_avx2
#include "kernel/flac/flac_run.c"

/* ---- the checksum with PCLMULQDQ ---- */

/* Returns sixteen bytes as a polynomial, in which the first bit is the coefficient of the highest power. */
static inline __m128i polynomial(const uint8_t *p)
{
	const __m128i reversed = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
	return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), reversed);
}

/* Returns a polynomial of at most 128 bits with the same remainder as a * x^n. powers: the remainders of x^(n + 64) and of x^n. */
__attribute__((target("pclmul"))) static inline __m128i move_up(__m128i a, __m128i powers)
{
	return _mm_xor_si128(_mm_clmulepi64_si128(a, powers, 0x11), _mm_clmulepi64_si128(a, powers, 0x00));
}

/* Returns the checksum of the bytes whose checksum is `sum`, followed by n more bytes, by the method of Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ" (Intel, 2009): replaces the bytes by sixteen that have the same checksum. */
__attribute__((target("pclmul"))) static uint32_t checksum_clmul(uint32_t sum, const uint8_t *p, size_t n)
{
	enum { LANES = 4, EACH = 16 };
	/* The remainders for n = 512 and for n = 128 (move_up). */
	const __m128i by_lanes = _mm_set_epi64x(0x1446, 0x8107), by_one = _mm_set_epi64x(0x1666, 0x106);
	__m128i a[LANES];
	uint8_t last[EACH];
	if (n < LANES * EACH)
		return checksum(sum, p, n);
	for (int k = 0; k < LANES; k++)
		a[k] = polynomial(p + k * EACH);
	a[0] = _mm_xor_si128(a[0], _mm_set_epi64x((int64_t)((uint64_t)sum << 48), 0));
	p += LANES * EACH;
	n -= LANES * EACH;
	for (; n >= LANES * EACH; n -= LANES * EACH, p += LANES * EACH)
		for (int k = 0; k < LANES; k++)
			a[k] = _mm_xor_si128(move_up(a[k], by_lanes), polynomial(p + k * EACH));
	for (int k = 1; k < LANES; k++)
		a[0] = _mm_xor_si128(move_up(a[0], by_one), a[k]);
	for (; n >= EACH; n -= EACH, p += EACH)
		a[0] = _mm_xor_si128(move_up(a[0], by_one), polynomial(p));
	_mm_storeu_si128((__m128i *)(void *)last, a[0]);
	const __m128i bytes = polynomial(last);
	_mm_storeu_si128((__m128i *)(void *)last, bytes);
	return checksum(checksum(0, last, EACH), p, n);
}

const struct stk_flac_loops stk__flac_clmul = {residual, predict, checksum_clmul};
