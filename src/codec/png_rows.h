/* SPDX-License-Identifier: Apache-2.0
 * Inflates all rows of pixels of an undamaged PNG in one step, if it is not interlaced. */
#pragma once

#include "base/cancel.h"
#include "base/memory.h"

struct stk_png_shape {
	size_t row;   /* size in bytes of a row, without the byte that names its filter */
	size_t pixel; /* size in bytes of a pixel */
	size_t rows;
};

/* Returns the maximum number of bytes that stk__png_rows takes from the arena for a file of `size` bytes; 0 if it refuses such files. */
size_t stk__png_rows_memory(size_t size, struct stk_png_shape shape);

/* Inflates the pixels of a PNG with libdeflate, which is about twice as fast as zlib but needs memory for the whole image, and undoes the rows' filters.
 * Returns `rows` rows from the arena, each after the byte that names its filter. Samples of 16 bits are big-endian, as in the file.
 * Returns NULL if libspng has to decode the file: something in it is damaged, chunks other than IEND follow the pixels, the image is large, the arena's limit
 * does not allow the memory, the work was cancelled, or the build has no libdeflate. cancel: nullable. */
uint8_t *stk__png_rows(
	const uint8_t *data, size_t size, struct stk_png_shape shape, struct stk_arena *scratch, const struct stk_cancel *cancel);
