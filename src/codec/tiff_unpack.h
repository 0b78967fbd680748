/* SPDX-License-Identifier: Apache-2.0
 * Unpacks TIFF's strips and tiles: PackBits, LZW and deflate. */
#ifndef STK_CODEC_TIFF_UNPACK_H
#define STK_CODEC_TIFF_UNPACK_H

#include "base/cancel.h"
#include "base/memory.h"
#include "codec/tiff_directory.h"

/* Maximum number of bytes that stk__tiff_unpacker_make takes from the arena. */
enum { STK_TIFF_UNPACKER_MEMORY = 64 << 10 };

/* Makes an unpacker of single chunks in memory of the arena. size: size of the file in bytes. cancel: ends unpacking early if set. NULL: memory is short. */
struct stk_tiff_unpacker;
struct stk_tiff_unpacker *stk__tiff_unpacker_make(struct stk_arena *scratch, size_t size, const struct stk_cancel *cancel);

/* Unpacks a chunk into exactly `need` bytes at `to`. STK_UNSUPPORTED: a size of 2^32 or more, or LZW as before revision 6.0. STK_CORRUPT: the chunk is damaged,
 * or has fewer bytes. STK_LIMIT: all chunks so far have read far more bytes than the file has, for example because they share the same bytes. STK_NO_MEMORY. */
STK_MUST_USE enum stk_status stk__tiff_unpack(struct stk_tiff_unpacker *u, uint32_t compression, const uint8_t *from, size_t size,
	uint8_t *to, size_t need, struct stk_error *err);

#endif
