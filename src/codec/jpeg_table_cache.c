/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_table_cache.h"

#include <string.h>

/* The slot that has this content, or the one that has not been used for longest, with *found false. */
static int find(struct stk_jpeg_cached_key *keys, const struct stk_jpeg_huffman *h, uint32_t bits, uint64_t now, bool *found)
{
	int oldest = 0;
	for (int i = 0; i < STK_JPEG_CACHED; i++) {
		if (keys[i].used && keys[i].bits == bits && memcmp(&keys[i].huffman, h, sizeof *h) == 0) {
			keys[i].used = now;
			*found = true;
			return i;
		}
		if (keys[i].used < keys[oldest].used)
			oldest = i;
	}
	keys[oldest] = (struct stk_jpeg_cached_key){*h, bits, now};
	*found = false;
	return oldest;
}

const struct stk_jpeg_ac_table *stk__jpeg_cached_ac(struct stk_jpeg_table_cache *c, const struct stk_jpeg_huffman *h, uint32_t bits)
{
	bool found;
	int i = find(c->ac_key, h, bits, ++c->clock, &found);
	if (!found)
		stk__jpeg_ac_table_build(&c->ac[i], h, bits);
	return &c->ac[i];
}

const struct stk_jpeg_dc_table *stk__jpeg_cached_dc(struct stk_jpeg_table_cache *c, const struct stk_jpeg_huffman *h)
{
	bool found;
	int i = find(c->dc_key, h, STK_JPEG_DC_BITS, ++c->clock, &found);
	if (!found)
		stk__jpeg_dc_table_build(&c->dc[i], h);
	return &c->dc[i];
}
