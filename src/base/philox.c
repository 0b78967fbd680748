/* SPDX-License-Identifier: Apache-2.0 */
#include "base/philox.h"

struct stk_philox_block stk__philox(uint64_t key, const uint32_t counter[4])
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)p1;
		c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return (struct stk_philox_block){{c0, c1, c2, c3}};
}

uint64_t stk__mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

uint64_t stk__random_stream(const char *name)
{
	uint64_t h = 0xCBF29CE484222325u; /* FNV-1a */
	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001B3u;
	return h;
}

struct stk_random stk__random(uint64_t seed, uint64_t stream, int64_t epoch, int64_t position)
{
	return (struct stk_random){
		.key = stk__mix64(seed + 0x9E3779B97F4A7C15u) ^ stk__mix64(stream),
		.position = (uint64_t)position,
		.epoch = (uint32_t)epoch,
	};
}

uint32_t stk__random_u32(struct stk_random *r)
{
	if (r->draw % 4 == 0) {
		const uint32_t counter[4] = {(uint32_t)r->position, (uint32_t)(r->position >> 32), r->epoch, r->draw / 4};
		r->block = stk__philox(r->key, counter);
	}
	return r->block.v[r->draw++ % 4];
}

float stk__random_float(struct stk_random *r)
{
	return (float)(stk__random_u32(r) >> 8) * 0x1p-24f;
}

double stk__random_double(struct stk_random *r)
{
	uint64_t hi = stk__random_u32(r) >> 5, lo = stk__random_u32(r) >> 6;
	return (double)(hi << 26 | lo) * 0x1p-53;
}

uint32_t stk__random_below(struct stk_random *r, uint32_t n)
{
	return (uint32_t)((uint64_t)stk__random_u32(r) * n >> 32);
}
