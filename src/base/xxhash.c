/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xxhash.h"

#include <string.h>

#define P1 0x9E3779B185EBCA87u
#define P2 0xC2B2AE3D27D4EB4Fu
#define P3 0x165667B19E3779F9u
#define P4 0x85EBCA77C2B2AE63u
#define P5 0x27D4EB2F165667C5u

static uint64_t rotate(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t x;
	memcpy(&x, p, sizeof x);
	return x;
}

static uint32_t load32(const uint8_t *p)
{
	uint32_t x;
	memcpy(&x, p, sizeof x);
	return x;
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
	return rotate(lane + input * P2, 31) * P1;
}

static uint64_t merge(uint64_t h, uint64_t lane)
{
	return (h ^ mix(0, lane)) * P1 + P4;
}

/* Hashes the whole blocks of 32 bytes of a text with four independent sums, and returns the sums combined. Moves *at to the end of the last whole block. */
static uint64_t stripes(const uint8_t **at, const uint8_t *end, uint64_t seed)
{
	uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
	const uint8_t *p = *at;
	for (; end - p >= 32; p += 32) {
		a = mix(a, load64(p));
		b = mix(b, load64(p + 8));
		c = mix(c, load64(p + 16));
		d = mix(d, load64(p + 24));
	}
	*at = p;
	uint64_t h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
	return merge(merge(merge(merge(h, a), b), c), d);
}

uint64_t stk__xxh64(const void *data, size_t n, uint64_t seed)
{
	const uint8_t *p = data, *end = n ? p + n : p;
	uint64_t h = n >= 32 ? stripes(&p, end, seed) : seed + P5;
	h += n;
	for (; end - p >= 8; p += 8)
		h = rotate(h ^ mix(0, load64(p)), 27) * P1 + P4;
	if (end - p >= 4) {
		h = rotate(h ^ load32(p) * P1, 23) * P2 + P3;
		p += 4;
	}
	for (; p < end; p++)
		h = rotate(h ^ *p * P5, 11) * P1;
	h = (h ^ h >> 33) * P2;
	h = (h ^ h >> 29) * P3;
	return h ^ h >> 32;
}
