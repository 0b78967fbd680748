/* SPDX-License-Identifier: Apache-2.0
 * The compressions of TIFF's strips and tiles: PackBits, LZW and deflate. */
#ifndef STK_CODEC_TIFF_UNPACK_H
#define STK_CODEC_TIFF_UNPACK_H

#include "base/cancel.h"
#include "base/memory.h"
#include "codec/tiff_directory.h"

/* Bytes that stk__tiff_unpacker_make takes of the arena at most. */
enum { STK_TIFF_UNPACKER_MEMORY = 64 << 10 };

/* Memory for one chunk after the other, of the arena's; size: of the file. cancel: unpacking then stops early. NULL: there is no memory left. */
struct stk_tiff_unpacker;
struct stk_tiff_unpacker *stk__tiff_unpacker_make(struct stk_arena *scratch, size_t size, const struct stk_cancel *cancel);

/* Fills `to` with exactly `need` bytes, which the chunk at from has to hold at least. Both sizes below 2^32. STK_CORRUPT: damaged or short.
 * STK_LIMIT: the chunks so far have read far more bytes than the file has, as where all chunks are the same bytes, most of which unpack to nothing. */
STK_MUST_USE enum stk_status stk__tiff_unpack(struct stk_tiff_unpacker *u, uint32_t compression, const uint8_t *from, size_t size,
	uint8_t *to, size_t need, struct stk_error *err);

#endif
