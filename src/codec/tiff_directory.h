/* SPDX-License-Identifier: Apache-2.0
 * The first directory of a TIFF (revision 6.0) or BigTIFF: what it says of the image, and where its strips or tiles lie. */
#ifndef STK_CODEC_TIFF_DIRECTORY_H
#define STK_CODEC_TIFF_DIRECTORY_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum stk_tiff_compression {
	STK_TIFF_NONE = 1,
	STK_TIFF_LZW = 5,
	STK_TIFF_DEFLATE = 8,
	STK_TIFF_OLD_DEFLATE = 32946,
	STK_TIFF_PACKBITS = 32773
};
enum stk_tiff_photometric {
	STK_TIFF_WHITE_IS_ZERO = 0,
	STK_TIFF_BLACK_IS_ZERO = 1,
	STK_TIFF_RGB = 2,
	STK_TIFF_PALETTE = 3,
	STK_TIFF_CMYK = 5
};

/* The values of an entry, which lie inside the file; count 0: the entry is not there. */
struct stk_tiff_values {
	uint32_t type;
	uint64_t count;
	const uint8_t *at;
};

struct stk_tiff {
	const uint8_t *data;
	size_t size;
	bool little, big;
	int32_t width, height, orientation;
	uint32_t bits, samples; /* of a sample: 1, 2, 4, 8, 16; of a pixel */
	uint32_t compression, photometric;
	bool predicted; /* each value is the difference from the one to its left */
	bool separate;  /* a plane for each sample */
	bool tiled;
	uint32_t chunk_width, chunk_height; /* of a tile or strip; the last strip ends with the image */
	uint64_t across, down;              /* chunks of a plane */
	struct stk_tiff_values offsets, counts, colors;
	uint32_t color_scale; /* what makes the palette's values 16 bits: 257 where they have 8 */
};

/* True where the bytes begin as those of a TIFF. */
bool stk__tiff_probe(const uint8_t *data, size_t size);

/* Reads and checks it; then every chunk has an offset, though this may lie outside the file, and a row of a chunk and a chunk have
 * less than 2^32 bytes. STK_UNSUPPORTED names what is not decoded. Allocates nothing. */
STK_MUST_USE enum stk_status stk__tiff_read(const uint8_t *data, size_t size, struct stk_tiff *t, struct stk_error *err);

/* The i-th value, i < count. */
uint64_t stk__tiff_value(const struct stk_tiff *t, const struct stk_tiff_values *v, uint64_t i);

/* Bytes of chunk i in the file. Files that do not say: uncompressed ones have what its pixels take, others what comes behind its offset. */
uint64_t stk__tiff_count(const struct stk_tiff *t, uint64_t i);

/* Bytes of a row of a chunk, of one plane; and of a whole chunk. */
uint64_t stk__tiff_row_bytes(const struct stk_tiff *t);
uint64_t stk__tiff_chunk_bytes(const struct stk_tiff *t);

#endif
