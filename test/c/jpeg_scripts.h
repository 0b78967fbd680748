/* SPDX-License-Identifier: Apache-2.0
 * Random scan scripts for progressive files. */
#ifndef STK_TEST_JPEG_SCRIPTS_H
#define STK_TEST_JPEG_SCRIPTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/* Sets the compressor's scans, in memory that the next call overwrites. unfinished: omits the last AC scan. */
void test_jpeg_script(struct jpeg_compress_struct *c, uint64_t seed, bool unfinished);

#endif
