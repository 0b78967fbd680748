/* SPDX-License-Identifier: Apache-2.0
 * Makes small files whose decoding would need much memory, and changes the structure of image files at random. */
#ifndef STK_TEST_HOSTILE_FILES_H
#define STK_TEST_HOSTILE_FILES_H

#include "image_files.h"

/* Makes a complete progressive JPEG of width x height pixels with three components at full size, whose coefficients are all zero: its only scan consists of
 * runs of empty blocks. With 16384 x 16384 pixels the file has about 370 bytes, and its coefficients need 1.5 GB. */
struct test_file hostile_jpeg(int width, int height);

/* Makes an 8-bit RGB PNG whose data are only a few pixels, whatever its header states. */
struct test_file hostile_png(uint32_t width, uint32_t height, bool interlaced);

/* Inserts a chunk of `size` bytes after IHDR: the header of a big-endian TIFF, then zeros. */
void hostile_png_insert(struct test_file *f, const char *type, size_t size);

/* Makes a random change to the structure of a JPEG or PNG file, in place: dimensions, sampling factors, lengths, tables, markers, restart intervals. The
 * buffer must have space for 64 more bytes. */
void hostile_mutate(struct test_file *f, uint64_t *seed);

#endif
