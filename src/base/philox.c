/* SPDX-License-Identifier: Apache-2.0 */
#include "base/philox_hd.h"

struct stk_philox_block stk__philox(uint64_t key, const uint32_t counter[4])
{
	return stk__philox_hd(key, counter[0], counter[1], counter[2], counter[3]);
}

uint64_t stk__mix64(uint64_t x)
{
	return stk__mix64_hd(x);
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
	return stk__unit_hd(stk__random_u32(r));
}

double stk__random_double(struct stk_random *r)
{
	uint64_t hi = stk__random_u32(r) >> 5, lo = stk__random_u32(r) >> 6;
	return (double)(hi << 26 | lo) * 0x1p-53;
}

uint32_t stk__random_below(struct stk_random *r, uint32_t n)
{
	return stk__below_hd(stk__random_u32(r), n);
}
