/* SPDX-License-Identifier: Apache-2.0
 * The loops of a FLAC decoder. flac_avx2.c compiles them again for AVX2 and BMI2. */
#include "kernel/flac/flac.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

/* ---- residuals ---- */

/* The largest parameters for which four, three or two Rice codes are read from the cache at once: 56 bits hold that many codes, and leave some bits for
 * their leading zeros. Codes with larger parameters are read one by one. */
enum { PARAMETER_OF_FOUR = 9, PARAMETER_OF_THREE = 14, PARAMETER_OF_TWO = 24 };

static inline int32_t unfold(uint32_t v)
{
	return (int32_t)(v >> 1 ^ (0 - (v & 1)));
}

/* Reads one Rice code of any length, and stores its signed value in *to. Returns false if the code is too long or the bytes end. */
static bool read_code(struct stk_flac_bits *b, int32_t parameter, int32_t *to)
{
	uint32_t high;
	if (!stk__flac_unary(b, UINT32_MAX >> parameter, &high))
		return false;
	*to = unfold(high << parameter | stk__flac_get(b, parameter));
	return true;
}

/* Reads at most n Rice codes in groups of `each`. Ends if fewer than `each` are left, if the piece has fewer than 8 bytes, or if the cache does not have
 * all bits of a group. Returns the number of codes that were read. Stores the value of each code before `unfold`, plus 1 << parameter: the bit that ends
 * the leading zeros has not been removed. */
static inline __attribute__((always_inline)) int32_t read_together(
	struct stk_flac_bits *from, int32_t parameter, int32_t *to, int32_t n, const int32_t each)
{
	struct stk_flac_bits b = *from;
	const int32_t down = 63 - parameter, least = each * (parameter + 1);
	int32_t i = 0;
	for (; i + each <= n && b.end - b.p >= 8; i += each) {
		uint64_t cache = b.cache |= stk__flac_load(b.p) >> b.count;
		b.p += (63 - b.count) >> 3;
		b.count |= 56;
		int32_t rest = b.count - least; /* number of the cache's bits after the codes; below 0 if it has not all of their bits */
#pragma GCC unroll 4
		for (int32_t k = 0; k < each; k++) {
			const int32_t lead = cache ? __builtin_clzll(cache) : 64;
			cache <<= lead & 63; /* the cache begins with the one bit, and the code's low part follows */
			to[i + k] = (int32_t)(((uint32_t)lead << parameter) + (uint32_t)(cache >> down));
			cache <<= parameter + 1;
			rest -= lead;
		}
		if (rest < 0)
			break;
		b.cache = cache;
		b.count = rest;
	}
	*from = b;
	return i;
}

/* Reads n Rice codes and stores their signed values in `to`. Returns false if a code is too long or the bytes end. */
static bool read_codes(struct stk_flac_bits *b, int32_t parameter, int32_t *to, int32_t n)
{
	const uint32_t one = (uint32_t)1 << parameter;
	for (int32_t i = 0; i < n; i++) {
		int32_t *some = to + i, made = 0;
		if (parameter <= PARAMETER_OF_FOUR)
			made = read_together(b, parameter, some, n - i, 4);
		else if (parameter <= PARAMETER_OF_THREE)
			made = read_together(b, parameter, some, n - i, 3);
		else if (parameter <= PARAMETER_OF_TWO)
			made = read_together(b, parameter, some, n - i, 2);
		for (int32_t k = 0; k < made; k++)
			some[k] = unfold((uint32_t)some[k] - one);
		i += made;
		if (i < n && !read_code(b, parameter, &to[i]))
			return false;
	}
	return true;
}

/* Reads n residuals of `bits` bits each. */
static void read_plain(struct stk_flac_bits *b, int32_t bits, int32_t *to, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		to[i] = bits ? (int32_t)stk__flac_get_signed(b, bits) : 0;
}

static bool residual(struct stk_flac_bits *b, int32_t *to, int32_t block, int32_t order)
{
	const uint32_t method = stk__flac_get(b, 2);
	const int32_t width = method ? 5 : 4, partitions = 1 << stk__flac_get(b, 4), each = block / partitions;
	if (method > 1 || each * partitions != block || each < order)
		return false;
	for (int32_t k = 0, at = order; k < partitions; k++) {
		const int32_t n = (k + 1) * each - at, parameter = (int32_t)stk__flac_get(b, width);
		if (parameter == (1 << width) - 1)
			read_plain(b, (int32_t)stk__flac_get(b, 5), to + at, n);
		else if (!read_codes(b, parameter, to + at, n))
			return false;
		if (stk__flac_ended(b))
			return false;
		at += n;
	}
	return true;
}

/* ---- prediction ---- */

/* Replaces the residuals x[order .. n - 1] by samples. Computes modulo 2^32 (predict_wide: modulo 2^64); only samples of damaged files exceed this. */
static inline __attribute__((always_inline)) void predict_narrow(
	const int32_t *coefficient, int32_t shift, int32_t *x, int32_t n, const int32_t order)
{
	uint32_t c[STK_FLAC_MAX_ORDER];
	for (int32_t k = 0; k < order; k++)
		c[k] = (uint32_t)coefficient[k];
	for (int32_t i = order; i < n; i++) {
		uint32_t sum = 0;
#pragma GCC unroll 16
		for (int32_t k = order - 1; k >= 0; k--)
			sum += c[k] * (uint32_t)x[i - 1 - k];
		x[i] = (int32_t)((uint32_t)x[i] + (uint32_t)((int32_t)sum >> shift));
	}
}

static inline __attribute__((always_inline)) void predict_wide(
	const int32_t *coefficient, int32_t shift, int32_t *x, int32_t n, const int32_t order)
{
	int64_t c[STK_FLAC_MAX_ORDER];
	for (int32_t k = 0; k < order; k++)
		c[k] = coefficient[k];
	for (int32_t i = order; i < n; i++) {
		int64_t sum = 0;
#pragma GCC unroll 16
		for (int32_t k = order - 1; k >= 0; k--)
			sum += c[k] * x[i - 1 - k];
		x[i] = (int32_t)((uint32_t)x[i] + (uint32_t)(sum >> shift));
	}
}

/* Case k of EACH_ORDER, which calls f with a constant order, so that the compiler makes an unrolled loop for each usual order. */
#define CASE(f, k)                                                                                                                         \
	case k:                                                                                                                            \
		f(p->coefficient, p->shift, x, n, k);                                                                                      \
		break
#define EACH_ORDER(f)                                                                                                                      \
	switch (p->order) {                                                                                                                \
		CASE(f, 1);                                                                                                                \
		CASE(f, 2);                                                                                                                \
		CASE(f, 3);                                                                                                                \
		CASE(f, 4);                                                                                                                \
		CASE(f, 5);                                                                                                                \
		CASE(f, 6);                                                                                                                \
		CASE(f, 7);                                                                                                                \
		CASE(f, 8);                                                                                                                \
		CASE(f, 9);                                                                                                                \
		CASE(f, 10);                                                                                                               \
		CASE(f, 11);                                                                                                               \
		CASE(f, 12);                                                                                                               \
	default:                                                                                                                           \
		f(p->coefficient, p->shift, x, n, p->order);                                                                               \
	}

/* Returns true if all sums of the predictor fit into 32 bits. bits: number of bits of a sample. */
static bool is_narrow(const struct stk_flac_predictor *p, int32_t bits)
{
	uint64_t magnitude = 0;
	for (int32_t k = 0; k < p->order; k++)
		magnitude += (uint64_t)(p->coefficient[k] < 0 ? -(int64_t)p->coefficient[k] : p->coefficient[k]);
	return magnitude << (bits - 1) <= INT32_MAX;
}

static void predict_linear(const struct stk_flac_predictor *p, int32_t bits, int32_t *x, int32_t n)
{
	if (is_narrow(p, bits)) {
		EACH_ORDER(predict_narrow)
	} else {
		EACH_ORDER(predict_wide)
	}
}

/* Replaces the residuals x[order .. n - 1] of a fixed predictor by samples. The predictor of order k assumes that the k-th differences of the samples are
 * 0, so the residuals are these differences, and adding them up k times gives the samples. */
static void predict_fixed(int32_t order, int32_t *x, int32_t n)
{
	uint32_t d[4] = {0}; /* the previous sample, and its first, second and third differences */
	uint32_t last[4];
	if (order == 0 || n <= order)
		return;
	for (int32_t k = 0; k < order; k++)
		last[k] = (uint32_t)x[order - 1 - k];
	for (int32_t k = 0; k < order; k++) {
		d[k] = last[0];
		for (int32_t j = 0; j + 1 < order - k; j++)
			last[j] -= last[j + 1];
	}
	uint32_t a = d[0], b = d[1], c = d[2], e = d[3];
#define SUMS(step)                                                                                                                         \
	for (int32_t i = order; i < n; i++) {                                                                                              \
		step;                                                                                                                      \
		x[i] = (int32_t)a;                                                                                                         \
	}                                                                                                                                  \
	break
	switch (order) {
	case 1:
		SUMS(a += (uint32_t)x[i]);
	case 2:
		SUMS(b += (uint32_t)x[i]; a += b);
	case 3:
		SUMS(c += (uint32_t)x[i]; b += c; a += b);
	default:
		SUMS(e += (uint32_t)x[i]; c += e; b += c; a += b);
	}
#undef SUMS
}

static void predict_one(const struct stk_flac_task *t, int32_t n)
{
	if (t->fixed)
		predict_fixed(t->p.order, t->x, n);
	else if (t->p.order)
		predict_linear(&t->p, t->bits, t->x, n);
}

#ifdef __AVX2__
/* Four subframes are predicted at once, each in a lane of 64 bits: a sample depends on the one before it, so a single subframe would leave most of the
 * processor's units idle. The low 32 bits of a lane are the sample. */
enum { CHUNK = 256, MOST_TAPS = 12 };

/* Loads four samples of each subframe: sets to[k] to sample number at + k of all four subframes. */
static inline void load_columns(const struct stk_flac_task *t, int32_t at, __m256i *to)
{
	__m128i row[STK_FLAC_TOGETHER];
	for (int32_t l = 0; l < STK_FLAC_TOGETHER; l++)
		row[l] = _mm_loadu_si128((const __m128i *)(const void *)(t[l].x + at));
	const __m128i a = _mm_unpacklo_epi32(row[0], row[1]), b = _mm_unpacklo_epi32(row[2], row[3]);
	const __m128i c = _mm_unpackhi_epi32(row[0], row[1]), d = _mm_unpackhi_epi32(row[2], row[3]);
	to[0] = _mm256_cvtepu32_epi64(_mm_unpacklo_epi64(a, b));
	to[1] = _mm256_cvtepu32_epi64(_mm_unpackhi_epi64(a, b));
	to[2] = _mm256_cvtepu32_epi64(_mm_unpacklo_epi64(c, d));
	to[3] = _mm256_cvtepu32_epi64(_mm_unpackhi_epi64(c, d));
}

static inline void store_columns(const struct stk_flac_task *t, int32_t at, const __m256i *from)
{
	const __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
	__m128i column[STK_FLAC_TOGETHER];
	for (int32_t k = 0; k < STK_FLAC_TOGETHER; k++)
		column[k] = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(from[k], low));
	const __m128i a = _mm_unpacklo_epi32(column[0], column[1]), b = _mm_unpacklo_epi32(column[2], column[3]);
	const __m128i c = _mm_unpackhi_epi32(column[0], column[1]), d = _mm_unpackhi_epi32(column[2], column[3]);
	_mm_storeu_si128((__m128i *)(void *)(t[0].x + at), _mm_unpacklo_epi64(a, b));
	_mm_storeu_si128((__m128i *)(void *)(t[1].x + at), _mm_unpackhi_epi64(a, b));
	_mm_storeu_si128((__m128i *)(void *)(t[2].x + at), _mm_unpacklo_epi64(c, d));
	_mm_storeu_si128((__m128i *)(void *)(t[3].x + at), _mm_unpackhi_epi64(c, d));
}

#define EACH_LANE(value) _mm256_setr_epi64x(value(0), value(1), value(2), value(3))

/* Predicts samples begin .. end - 1 of four subframes; their number must be a multiple of four. All values before `begin`, at least `taps`, must be samples. */
static inline __attribute__((always_inline)) void predict_lanes(
	const struct stk_flac_task *t, int32_t begin, int32_t end, const int32_t taps, const bool some_narrow)
{
#define COEFFICIENT(l) (k < t[l].p.order ? t[l].p.coefficient[k] : 0)
#define EARLIER(l) t[l].x[begin - taps + k]
#define SHIFT(l) t[l].p.shift
#define NARROW(l) (!t[l].fixed && is_narrow(&t[l].p, t[l].bits) ? -1 : 0)
	__m256i c[MOST_TAPS], work[MOST_TAPS + CHUNK];
	const __m256i shift = EACH_LANE(SHIFT), narrow = EACH_LANE(NARROW);
	for (int32_t k = 0; k < taps; k++) {
		c[k] = EACH_LANE(COEFFICIENT);
		work[k] = EACH_LANE(EARLIER);
	}
	for (int32_t at = begin, count; at < end; at += count) {
		__m256i last = work[taps - 1];
		count = end - at < CHUNK ? end - at : CHUNK;
		for (int32_t i = 0; i < count; i += STK_FLAC_TOGETHER)
			load_columns(t, at + i, work + taps + i);
		for (int32_t i = taps; i < taps + count; i++) {
			__m256i sum = _mm256_mul_epi32(c[taps - 1], work[i - taps]);
#pragma GCC unroll 16
			for (int32_t k = taps - 2; k > 0; k--)
				sum = _mm256_add_epi64(sum, _mm256_mul_epi32(c[k], work[i - 1 - k]));
			sum = _mm256_add_epi64(sum, _mm256_mul_epi32(c[0], last));
			__m256i shifted = _mm256_srlv_epi64(sum, shift); /* an arithmetic shift would give the same low 32 bits */
			if (some_narrow)
				shifted = _mm256_blendv_epi8(shifted, _mm256_srav_epi32(sum, shift), narrow);
			last = _mm256_add_epi32(work[i], shifted);
			work[i] = last;
		}
		for (int32_t i = 0; i < count; i += STK_FLAC_TOGETHER)
			store_columns(t, at + i, work + taps + i);
		for (int32_t k = 0; k < taps; k++)
			work[k] = work[count + k];
	}
#undef COEFFICIENT
#undef EARLIER
#undef SHIFT
#undef NARROW
}

#define LANES(k)                                                                                                                           \
	if (taps <= (k)) {                                                                                                                 \
		if (narrow)                                                                                                                \
			predict_lanes(t, k, end, k, true);                                                                                 \
		else                                                                                                                       \
			predict_lanes(t, k, end, k, false);                                                                                \
		return;                                                                                                                    \
	}

static void predict_begun(const struct stk_flac_task *t, int32_t end, int32_t taps, bool narrow)
{
	LANES(2)
	LANES(4)
	LANES(6)
	LANES(8)
	LANES(10)
	LANES(12)
}

/* Predicts four subframes together. Returns false, and does nothing, if their lengths differ or are below 4 * MOST_TAPS, an order exceeds MOST_TAPS, or all
 * orders are 0. */
static bool predict_four(const struct stk_flac_task *t)
{
	int32_t taps = 0;
	bool narrow = false;
	for (int32_t l = 0; l < STK_FLAC_TOGETHER; l++) {
		if (t[l].n != t[0].n || t[l].p.order > MOST_TAPS)
			return false;
		taps = t[l].p.order > taps ? t[l].p.order : taps;
		narrow = narrow || (!t[l].fixed && is_narrow(&t[l].p, t[l].bits));
	}
	const int32_t n = t[0].n, begin = (taps + 1) / 2 * 2, end = begin + (n - begin) / STK_FLAC_TOGETHER * STK_FLAC_TOGETHER;
	if (taps == 0 || n < 4 * MOST_TAPS)
		return false;
	for (int32_t l = 0; l < STK_FLAC_TOGETHER; l++)
		predict_one(&t[l], begin);
	predict_begun(t, end, taps, narrow);
	for (int32_t l = 0; l < STK_FLAC_TOGETHER; l++) {
		struct stk_flac_task rest = t[l];
		rest.x += end - rest.p.order;
		predict_one(&rest, n - end + rest.p.order);
	}
	return true;
}
#else
static bool predict_four(const struct stk_flac_task *t)
{
	(void)t;
	return false;
}
#endif

static void predict(const struct stk_flac_task *tasks, int32_t count)
{
	for (int32_t i = 0; i < count;) {
		if (count - i >= STK_FLAC_TOGETHER && predict_four(tasks + i)) {
			i += STK_FLAC_TOGETHER;
			continue;
		}
		predict_one(&tasks[i], tasks[i].n);
		i++;
	}
}

/* ---- checksum ---- */

/* Table k has, for each byte, the checksum of the byte followed by k zero bytes. Checksums are linear, so those of the bytes 1, 2, 4 .. 128 are enough. */
#define ENTRY(i, a, b, c, d, e, f, g, h)                                                                                                   \
	((i)&1 ? (a) : 0) ^ ((i)&2 ? (b) : 0) ^ ((i)&4 ? (c) : 0) ^ ((i)&8 ? (d) : 0) ^ ((i)&16 ? (e) : 0) ^ ((i)&32 ? (f) : 0) ^          \
		((i)&64 ? (g) : 0) ^ ((i)&128 ? (h) : 0)
#define T0(i) ENTRY(i, 0x8005, 0x800f, 0x801b, 0x8033, 0x8063, 0x80c3, 0x8183, 0x8303)
#define T1(i) ENTRY(i, 0x8603, 0x8c03, 0x9803, 0xb003, 0xe003, 0x4003, 0x8006, 0x8009)
#define T2(i) ENTRY(i, 0x8017, 0x802b, 0x8053, 0x80a3, 0x8143, 0x8283, 0x8503, 0x8a03)
#define T3(i) ENTRY(i, 0x9403, 0xa803, 0xd003, 0x2003, 0x4006, 0x800c, 0x801d, 0x803f)
#define T4(i) ENTRY(i, 0x807b, 0x80f3, 0x81e3, 0x83c3, 0x8783, 0x8f03, 0x9e03, 0xbc03)
#define T5(i) ENTRY(i, 0xf803, 0x7003, 0xe006, 0x4009, 0x8012, 0x8021, 0x8047, 0x808b)
#define T6(i) ENTRY(i, 0x8113, 0x8223, 0x8443, 0x8883, 0x9103, 0xa203, 0xc403, 0x0803)
#define T7(i) ENTRY(i, 0x1006, 0x200c, 0x4018, 0x8030, 0x8065, 0x80cf, 0x819b, 0x8333)
#define FOUR(t, i) t(i), t((i) + 1), t((i) + 2), t((i) + 3)
#define SIXTEEN(t, i) FOUR(t, i), FOUR(t, (i) + 4), FOUR(t, (i) + 8), FOUR(t, (i) + 12)
#define SIXTY_FOUR(t, i) SIXTEEN(t, i), SIXTEEN(t, (i) + 16), SIXTEEN(t, (i) + 32), SIXTEEN(t, (i) + 48)
#define TABLE(t)                                                                                                                           \
	{                                                                                                                                  \
		SIXTY_FOUR(t, 0), SIXTY_FOUR(t, 64), SIXTY_FOUR(t, 128), SIXTY_FOUR(t, 192)                                                \
	}

static const uint16_t sums[8][256] = {TABLE(T0), TABLE(T1), TABLE(T2), TABLE(T3), TABLE(T4), TABLE(T5), TABLE(T6), TABLE(T7)};

static uint32_t checksum(uint32_t sum, const uint8_t *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8)
		sum = (uint32_t)(sums[7][p[0] ^ sum >> 8] ^ sums[6][p[1] ^ (sum & 255)] ^ sums[5][p[2]] ^ sums[4][p[3]] ^ sums[3][p[4]] ^
				 sums[2][p[5]] ^ sums[1][p[6]] ^ sums[0][p[7]]);
	for (; n; n--, p++)
		sum = (sum << 8 & 0xffff) ^ sums[0][*p ^ sum >> 8];
	return sum;
}

const struct stk_flac_loops stk__flac_plain = {residual, predict, checksum};
