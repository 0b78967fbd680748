/* SPDX-License-Identifier: Apache-2.0
 * Makes image files for tests. Decodes them for reference with simple calls of libjpeg-turbo and libspng: whole images, no windows, no margins. */
#ifndef STK_TEST_IMAGE_FILES_H
#define STK_TEST_IMAGE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file in memory; 64 readable bytes follow size. Free data with free. */
struct test_file {
	uint8_t *data;
	size_t size;
};

struct test_jpeg {
	int width, height;
	int components;  /* 1, 3 or 4 (CMYK, not converted) */
	int h[4], v[4];  /* sampling factors; 0 means 1 */
	int quality;     /* 1..100 */
	int restart;     /* restart interval in MCUs; 0: no restart markers */
	int orientation; /* EXIF; 0: no EXIF */
	bool optimise, progressive, arithmetic;
	bool rgb;      /* stored as RGB, marked by Adobe's transform 0 */
	bool no_adobe; /* a CMYK file without Adobe's marker */
	bool ycck;
	bool separate;   /* one scan per component */
	uint64_t script; /* not 0: progressive, with a random script of scans from this seed */
	bool unfinished; /* omits the last AC scan */
	double noise;    /* 0 smooth .. 1 white noise */
	uint64_t seed;   /* seed of the random pixels */
};

struct test_file test_jpeg_make(const struct test_jpeg *j);

/* Decodes the whole image to one of libjpeg's colour spaces (a J_COLOR_SPACE), without padding. Returns NULL if libjpeg-turbo refuses the file; free the
 * result with free. *lossy: set if libjpeg-turbo warned that data was lost, which it replaces by guesses. */
uint8_t *test_jpeg_reference(struct test_file f, int space, int *width, int *height, bool *lossy);
/* Does the same at 1/denom of the size: 1, 2, 4 or 8. */
uint8_t *test_jpeg_reference_scaled(struct test_file f, int space, int denom, int *width, int *height, bool *lossy);

struct test_png {
	int width, height;
	int color, bits; /* as in IHDR */
	bool interlaced, transparency;
	int orientation;
	uint64_t seed;
};

struct test_file test_png_make(const struct test_png *p);
/* Returns the channels as they are stored (palettes as RGB). If the file has 16 bits per channel, so has the result, in native byte order; otherwise it has
 * 8. */
uint8_t *test_png_reference(struct test_file f, const struct test_png *p);

/* Uniform random numbers that depend only on the seed. */
uint32_t test_random(uint64_t *state);
int test_random_in(uint64_t *state, int low, int high); /* includes both bounds */

/* Returns the seed of a run: STOKER_TEST_SEED, or a constant. */
uint64_t test_seed(void);

#endif
