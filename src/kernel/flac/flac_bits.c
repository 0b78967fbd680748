/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/flac/flac.h"

bool stk__flac_unary(struct stk_flac_bits *b, uint32_t most, uint32_t *zeros)
{
	uint32_t n = 0;
	for (;;) {
		if (b->count < 32)
			stk__flac_refill(b);
		const int32_t lead = b->cache ? __builtin_clzll(b->cache) : 64;
		if (lead < b->count) {
			n += (uint32_t)lead;
			stk__flac_skip(b, lead);
			stk__flac_skip(b, 1);
			*zeros = n;
			return n <= most && !stk__flac_ended(b);
		}
		n += (uint32_t)b->count;
		b->cache = 0;
		b->count = 0;
		if (n > most || stk__flac_ended(b))
			return false;
	}
}
