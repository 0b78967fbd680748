/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_table_cache.h"

#include <string.h>

/* Returns the index of the slot with the tables of `h`. If no slot has them, gives the least recently used one to `h` and sets *found to false. now: number of
 * this use. */
static int find(struct stk_jpeg_cached_key *keys, const struct stk_jpeg_huffman *h, uint64_t now, bool *found)
{
	int oldest = 0;
	for (int i = 0; i < STK_JPEG_CACHED; i++) {
		if (keys[i].used && memcmp(&keys[i].huffman, h, sizeof *h) == 0) {
			keys[i].used = now;
			*found = true;
			return i;
		}
		if (keys[i].used < keys[oldest].used)
			oldest = i;
	}
	keys[oldest] = (struct stk_jpeg_cached_key){*h, now, false};
	*found = false;
	return oldest;
}

const struct stk_jpeg_ac_table *stk__jpeg_cached_ac(struct stk_jpeg_table_cache *c, const struct stk_jpeg_huffman *h, bool skips)
{
	bool found;
	int i = find(c->ac_key, h, ++c->clock, &found);
	if (!found)
		stk__jpeg_ac_table_build(&c->ac[i], h);
	if (skips && !c->ac_key[i].skips) {
		stk__jpeg_ac_table_build_skip(&c->ac[i], h);
		c->ac_key[i].skips = true;
	}
	return &c->ac[i];
}

const struct stk_jpeg_dc_table *stk__jpeg_cached_dc(struct stk_jpeg_table_cache *c, const struct stk_jpeg_huffman *h)
{
	bool found;
	int i = find(c->dc_key, h, ++c->clock, &found);
	if (!found)
		stk__jpeg_dc_table_build(&c->dc[i], h);
	return &c->dc[i];
}
