/* SPDX-License-Identifier: Apache-2.0
 * Makes image files for tests. Decodes them for reference with simple calls of libjpeg-turbo and libspng: whole images, no windows, no margins. */
#ifndef STK_TEST_IMAGE_FILES_H
#define STK_TEST_IMAGE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file in memory. 64 more bytes after its `size` bytes may be read. The owner frees `data` with free(). */
struct test_file {
	uint8_t *data;
	size_t size;
};

struct test_jpeg {
	int width, height;
	int components;  /* 1, 3 or 4 (4: CMYK) */
	int h[4], v[4];  /* sampling factors of each component; 0 means 1 */
	int quality;     /* 1..100 */
	int restart;     /* restart interval in MCUs; 0: no restart markers */
	int orientation; /* orientation in EXIF data; 0: no EXIF data */
	bool optimise, progressive, arithmetic;
	bool rgb;      /* stored as RGB, marked by Adobe's transform 0 */
	bool no_adobe; /* a CMYK file without Adobe's marker */
	bool ycck;
	bool separate;   /* one scan per component */
	uint64_t script; /* not 0: progressive, with a random script of scans from this seed */
	bool unfinished; /* omits the last AC scan */
	double noise;    /* from 0, smooth, to 1, white noise */
	uint64_t seed;   /* seed of the random pixels */
};

struct test_file test_jpeg_make(const struct test_jpeg *j);

/* Decodes the whole image to one of libjpeg's colour spaces (a J_COLOR_SPACE), without padding between rows. Returns NULL if libjpeg-turbo refuses the file;
 * the caller frees the result with free. *lossy: set if libjpeg-turbo warned that it replaced lost data by guesses. */
uint8_t *test_jpeg_reference(struct test_file f, int space, int *width, int *height, bool *lossy);
/* Like test_jpeg_reference, at 1/denom of the size: 1, 2, 4 or 8. */
uint8_t *test_jpeg_reference_scaled(struct test_file f, int space, int denom, int *width, int *height, bool *lossy);

struct test_png {
	int width, height;
	int color, bits; /* colour type and bits as in IHDR */
	bool interlaced, transparency;
	int orientation;
	uint64_t seed;
};

struct test_file test_png_make(const struct test_png *p);
/* Returns the channels as the file stores them, but palettes as RGB. The result has 16 bits per channel in native byte order if the file has 16, otherwise
 * 8. The caller frees it with free. */
uint8_t *test_png_reference(struct test_file f, const struct test_png *p);

/* Returns a uniform random number that depends only on *state, and advances *state. */
uint32_t test_random(uint64_t *state);
int test_random_in(uint64_t *state, int low, int high); /* returns a random number from low to high, both included */

/* Returns the seed of a run: STOKER_TEST_SEED, or a constant. */
uint64_t test_seed(void);

#endif
