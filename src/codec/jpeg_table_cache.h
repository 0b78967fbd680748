/* SPDX-License-Identifier: Apache-2.0
 * Keeps decoding tables for later files: most files of a data set have the same tables, and building them takes as long as decoding a small image. */
#ifndef STK_CODEC_JPEG_TABLE_CACHE_H
#define STK_CODEC_JPEG_TABLE_CACHE_H

#include "kernel/jpeg/jpeg_tables.h"

/* number of tables of each kind in the cache. An image uses at most three */
enum { STK_JPEG_CACHED = 4 };

struct stk_jpeg_cached_key {
	struct stk_jpeg_huffman huffman;
	uint64_t used; /* number of the last use, counted over all uses; 0: the slot is empty */
	bool skips;    /* the tables for skipping have been built */
};

struct stk_jpeg_table_cache {
	uint64_t clock;
	struct stk_jpeg_cached_key ac_key[STK_JPEG_CACHED], dc_key[STK_JPEG_CACHED];
	struct stk_jpeg_ac_table ac[STK_JPEG_CACHED];
	struct stk_jpeg_dc_table dc[STK_JPEG_CACHED];
};

/* Returns a decoding table, which stays valid for at least two more calls. The description h must be valid. skips: with the table for skipping blocks. */
const struct stk_jpeg_ac_table *stk__jpeg_cached_ac(struct stk_jpeg_table_cache *c, const struct stk_jpeg_huffman *h, bool skips);
const struct stk_jpeg_dc_table *stk__jpeg_cached_dc(struct stk_jpeg_table_cache *c, const struct stk_jpeg_huffman *h);

#endif
