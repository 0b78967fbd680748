/* SPDX-License-Identifier: Apache-2.0
 * Small files that ask for much memory. */
#ifndef STK_TEST_HOSTILE_FILES_H
#define STK_TEST_HOSTILE_FILES_H

#include "image_files.h"

/* A whole progressive JPEG of width x height pixels and three components at full size, all of it zero: its one scan is runs of empty blocks. With 16384 x
 * 16384 pixels it has some 370 bytes, and its coefficients 1.5 GB. */
struct test_file hostile_jpeg(int width, int height);

/* The first chunks of a PNG, of 8 bits RGB, with a few pixels and an IEND. */
struct test_file hostile_png(uint32_t width, uint32_t height, bool interlaced);

/* Inserts a chunk of `size` bytes behind IHDR: the header of big-endian TIFF, and zeros. */
void hostile_png_insert(struct test_file *f, const char *type, size_t size);

/* Gives the file's structure another turn, in place: dimensions, sampling factors, lengths, tables, markers, restart intervals. Room for 64 bytes more. */
void hostile_mutate(struct test_file *f, uint64_t *seed);

#endif
