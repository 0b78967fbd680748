/* SPDX-License-Identifier: Apache-2.0
 * Reads the first directory of a TIFF (revision 6.0) or BigTIFF: the image's format, and the offsets of its strips or tiles. */
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

enum stk_tiff_format { STK_TIFF_UNSIGNED = 1, STK_TIFF_SIGNED = 2, STK_TIFF_FLOAT = 3 };
/* How a file stores values: as they are, as DIFFERENCES of integers, or as BYTE_DIFFERENCES of floats. For the last of these, the bytes of a row's floats
 * are first grouped by significance. */
enum stk_tiff_predictor { STK_TIFF_NO_PREDICTOR = 1, STK_TIFF_DIFFERENCES = 2, STK_TIFF_BYTE_DIFFERENCES = 3 };
enum { STK_TIFF_MOST_SAMPLES = 64 };

/* The values of a directory entry, all of which are inside the file. count is 0 if the directory has no such entry. */
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
	uint32_t bits, samples; /* number of bits of a sample: 1, 2, 4, 8, 16, or 32 for floats; number of samples of a pixel: 1 ..
	                         * STK_TIFF_MOST_SAMPLES */
	enum stk_tiff_format format;
	uint32_t compression, photometric;
	enum stk_tiff_predictor predictor; /* NO_PREDICTOR for compressions that ignore the tag */
	bool separate;                     /* each sample has a plane of its own */
	bool tiled;
	uint32_t chunk_width, chunk_height; /* extents in pixels of a tile or strip (a chunk); the last strip may be lower */
	uint64_t across, down;              /* number of chunks of a plane, horizontally and vertically */
	struct stk_tiff_values offsets, counts, colors;
	uint32_t color_scale; /* factor that scales the palette's values to 16 bits: 257 if they have 8 bits, otherwise 1 */
};

/* Returns whether the bytes begin with a TIFF header. */
bool stk__tiff_probe(const uint8_t *data, size_t size);

/* Reads and checks the directory. Afterwards every chunk has an offset, which may be outside of the file, and a chunk has fewer than 2^32 bytes.
 * STK_UNSUPPORTED: the message names what cannot be decoded. Allocates nothing. */
STK_MUST_USE enum stk_status stk__tiff_read(const uint8_t *data, size_t size, struct stk_tiff *t, struct stk_error *err);

/* Returns value i of an entry; i must be less than v->count. */
uint64_t stk__tiff_value(const struct stk_tiff *t, const struct stk_tiff_values *v, uint64_t i);

/* Returns the size in bytes of chunk i in the file. If the file does not state it, returns the size of the pixels for uncompressed files, and the rest of
 * the file from the chunk's offset on for others. */
uint64_t stk__tiff_count(const struct stk_tiff *t, uint64_t i);

/* Return the size in bytes of one row of a chunk, in one plane, and that of a whole chunk. */
uint64_t stk__tiff_row_bytes(const struct stk_tiff *t);
uint64_t stk__tiff_chunk_bytes(const struct stk_tiff *t);

#endif
