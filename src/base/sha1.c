/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha1.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static void add_block(uint32_t h[5], const uint8_t block[64])
{
	static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		int part = i / 20;
		uint32_t f = part == 0 ? (b & c) | (~b & d) : part == 2 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
		uint32_t t = rotate(a, 5) + f + e + constants[part] + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void stk__sha1_hex(const void *data, size_t n, char hex[STK_SHA1_HEX])
{
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	const uint8_t *at = data;
	uint8_t last[128] = {0};
	size_t left = n % 64, blocks = left < 56 ? 1 : 2;
	for (size_t i = 0; i < n / 64; i++)
		add_block(h, at + 64 * i);
	memcpy(last, at + (n - left), left);
	last[left] = 0x80;
	for (int i = 0; i < 8; i++)
		last[64 * blocks - 1 - (size_t)i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
	for (size_t i = 0; i < blocks; i++)
		add_block(h, last + 64 * i);
	for (int i = 0; i < 5; i++)
		snprintf(hex + (size_t)i * 8, 9, "%08x", h[i]);
}
