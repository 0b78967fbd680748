/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include "base/system.h"

#include <string.h>

static const uint32_t K[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
	0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
	0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351,
	0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
	0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

/* One of 64 rounds. Instead of moving the eight words, the next round's macro call passes them in rotated order. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                                                                   \
	do {                                                                                                                               \
		uint32_t t = (h) + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((g) ^ ((e) & ((f) ^ (g)))) + K[i] + w[(i) % 16];      \
		(d) += t;                                                                                                                  \
		(h) = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + (((a) & (b)) | ((c) & ((a) | (b))));                            \
	} while (0)

/* Replaces the message words of the last 16 rounds with those of the next 16. */
static void schedule(uint32_t w[16])
{
	for (int i = 0; i < 16; i++) {
		uint32_t a = w[(i + 1) % 16], b = w[(i + 14) % 16];
		w[i] += (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[(i + 9) % 16] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

static void add_block(uint32_t state[8], const uint8_t *p)
{
	uint32_t w[16], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (int i = 0; i < 64; i += 8) {
		if (i && i % 16 == 0)
			schedule(w);
		ROUND(a, b, c, d, e, f, g, h, i);
		ROUND(h, a, b, c, d, e, f, g, i + 1);
		ROUND(g, h, a, b, c, d, e, f, i + 2);
		ROUND(f, g, h, a, b, c, d, e, i + 3);
		ROUND(e, f, g, h, a, b, c, d, i + 4);
		ROUND(d, e, f, g, h, a, b, c, i + 5);
		ROUND(c, d, e, f, g, h, a, b, i + 6);
		ROUND(b, c, d, e, f, g, h, a, i + 7);
	}
	const uint32_t more[8] = {a, b, c, d, e, f, g, h};
	for (int i = 0; i < 8; i++)
		state[i] += more[i];
}
#undef ROUND

void stk__sha256_init(struct stk_sha256 *s)
{
	*s = (struct stk_sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void stk__sha256_add(struct stk_sha256 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	while (n) {
		size_t at = s->size % 64, take = 64 - at < n ? 64 - at : n;
		memcpy(s->block + at, p, take);
		s->size += take;
		p += take;
		n -= take;
		if (at + take == 64)
			add_block(s->h, s->block);
	}
}

void stk__sha256_end(struct stk_sha256 *s, uint8_t digest[STK_SHA256_SIZE])
{
	const uint64_t bits = s->size * 8;
	size_t at = s->size % 64;
	s->block[at++] = 0x80;
	memset(s->block + at, 0, 64 - at);
	if (at > 56) {
		add_block(s->h, s->block);
		memset(s->block, 0, 56);
	}
	for (int i = 0; i < 8; i++)
		s->block[56 + i] = (uint8_t)(bits >> (56 - 8 * i));
	add_block(s->h, s->block);
	for (int i = 0; i < STK_SHA256_SIZE; i++)
		digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- HMAC ---- */

void stk__hmac_sha256_key(struct stk_hmac_sha256 *k, const void *key, size_t n)
{
	uint8_t inner[64] = {0}, outer[64];
	if (n > sizeof inner) {
		struct stk_sha256 s;
		stk__sha256_init(&s);
		stk__sha256_add(&s, key, n);
		stk__sha256_end(&s, inner);
	} else {
		memcpy(inner, key, n);
	}
	for (size_t i = 0; i < sizeof inner; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	stk__sha256_init(&k->inner);
	stk__sha256_add(&k->inner, inner, sizeof inner);
	stk__sha256_init(&k->outer);
	stk__sha256_add(&k->outer, outer, sizeof outer);
	stk__erase(inner, sizeof inner);
	stk__erase(outer, sizeof outer);
}

void stk__hmac_sha256_end(const struct stk_hmac_sha256 *k, struct stk_sha256 *s, uint8_t digest[STK_SHA256_SIZE])
{
	stk__sha256_end(s, digest);
	*s = k->outer;
	stk__sha256_add(s, digest, STK_SHA256_SIZE);
	stk__sha256_end(s, digest);
}

void stk__hmac_sha256(const void *key, size_t key_size, const void *data, size_t n, uint8_t digest[STK_SHA256_SIZE])
{
	struct stk_hmac_sha256 k;
	stk__hmac_sha256_key(&k, key, key_size);
	struct stk_sha256 s = k.inner;
	stk__sha256_add(&s, data, n);
	stk__hmac_sha256_end(&k, &s, digest);
}

void stk__sha256_hex(const uint8_t digest[STK_SHA256_SIZE], char hex[STK_SHA256_HEX])
{
	for (int i = 0; i < STK_SHA256_SIZE; i++) {
		hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
	}
	hex[STK_SHA256_HEX - 1] = 0;
}
