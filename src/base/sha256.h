/* SPDX-License-Identifier: Apache-2.0
 * Computes SHA-256 (FIPS 180-4) and HMAC (RFC 2104) of short texts, for signatures of requests. A signature hashes only some ten blocks, so plain C is fast
 * enough, and programs need not load a cryptography library in addition to libcurl's TLS library. */
#ifndef STK_BASE_SHA256_H
#define STK_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { STK_SHA256_SIZE = 32, STK_SHA256_HEX = 65 };

struct stk_sha256 {
	uint32_t h[8];
	uint64_t size;
	uint8_t block[64];
};

void stk__sha256_init(struct stk_sha256 *s);
void stk__sha256_add(struct stk_sha256 *s, const void *data, size_t n);
/* Writes the digest. Afterwards call stk__sha256_init before the state is used again. */
void stk__sha256_end(struct stk_sha256 *s, uint8_t digest[STK_SHA256_SIZE]);

/* An HMAC key, prepared for many texts: the hash states after its two blocks. For each text: s = k->inner, then stk__sha256_add as often as needed, then
 * stk__hmac_sha256_end. */
struct stk_hmac_sha256 {
	struct stk_sha256 inner, outer;
};

void stk__hmac_sha256_key(struct stk_hmac_sha256 *k, const void *key, size_t n);
/* Writes the HMAC of the text that was added to `s`. Afterwards `s` must be set again before it is used. */
void stk__hmac_sha256_end(const struct stk_hmac_sha256 *k, struct stk_sha256 *s, uint8_t digest[STK_SHA256_SIZE]);
void stk__hmac_sha256(const void *key, size_t key_size, const void *data, size_t n, uint8_t digest[STK_SHA256_SIZE]);
/* Writes the digest in lower-case hex, NUL-terminated. */
void stk__sha256_hex(const uint8_t digest[STK_SHA256_SIZE], char hex[STK_SHA256_HEX]);

#endif
