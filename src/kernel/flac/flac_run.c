/* SPDX-License-Identifier: Apache-2.0
 * Also compiled for AVX2 and BMI2 (flac_avx2.c). */
#include "kernel/flac/flac.h"

/* ---- residuals ---- */

enum { FAST_PARAMETER = 24 /* Rice codes with larger parameters may have over 32 bits, or leave no room in the cache for two of them */ };

static inline int32_t unfold(uint32_t v)
{
	return (int32_t)(v >> 1 ^ (0 - (v & 1)));
}

/* Reads one Rice code of any length. */
static bool read_code(struct stk_flac_bits *b, int32_t parameter, int32_t *to)
{
	uint32_t high;
	if (!stk__flac_unary(b, UINT32_MAX >> parameter, &high))
		return false;
	*to = unfold(high << parameter | stk__flac_get(b, parameter));
	return true;
}

/* Reads n Rice codes. The usual code has its bits in the cache; two codes follow each load. */
static bool read_codes(struct stk_flac_bits *from, int32_t parameter, int32_t *to, int32_t n)
{
	struct stk_flac_bits b = *from;
	int32_t i = 0;
#define CODE(k)                                                                                                                            \
	lead = b.cache ? __builtin_clzll(b.cache) : 64;                                                                                    \
	used = lead + 1 + parameter;                                                                                                       \
	if (used > b.count)                                                                                                                \
		goto rare;                                                                                                                 \
	to[k] = unfold((uint32_t)lead << parameter | (uint32_t)(b.cache << lead << 1 >> 1 >> (63 - parameter)));                           \
	b.cache = b.cache << (lead + parameter) << 1;                                                                                      \
	b.count -= used;                                                                                                                   \
	i++

	while (i < n) {
		int32_t lead, used;
		if (b.end - b.p >= 8 && parameter <= FAST_PARAMETER && i + 2 <= n) {
			b.cache |= stk__flac_load(b.p) >> b.count;
			b.p += (63 - b.count) >> 3;
			b.count |= 56;
			CODE(i);
			CODE(i);
			continue;
		}
	rare:
		*from = b;
		if (!read_code(from, parameter, &to[i]))
			return false;
		b = *from;
		i++;
	}
	*from = b;
	return true;
#undef CODE
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

/* Arithmetic is modulo 2^32 or 2^64: only samples of damaged files are larger. */
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

/* A loop for each usual order, which the compiler can unroll. */
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

static void predict(const struct stk_flac_predictor *p, int32_t bits, int32_t *x, int32_t n)
{
	uint64_t magnitude = 0;
	for (int32_t k = 0; k < p->order; k++)
		magnitude += (uint64_t)(p->coefficient[k] < 0 ? -(int64_t)p->coefficient[k] : p->coefficient[k]);
	if (magnitude << (bits - 1) <= INT32_MAX) { /* no sum has over 32 bits */
		EACH_ORDER(predict_narrow)
	} else {
		EACH_ORDER(predict_wide)
	}
}

/* A fixed predictor of order k says that the k-th difference is 0, so that samples are sums of sums of residuals. */
static void predict_fixed(int32_t order, int32_t *x, int32_t n)
{
	uint32_t d[4] = {0}; /* the last sample, and its differences */
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

/* ---- checksum ---- */

/* Table k has the checksum of each byte when k zero bytes follow it. Checksums are linear: those of the bytes 1, 2, 4, ... 128 give all others. */
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

const struct stk_flac_loops stk__flac_plain = {residual, predict, predict_fixed, checksum};
