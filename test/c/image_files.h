/* SPDX-License-Identifier: Apache-2.0
 * Image files made for tests, and what they hold according to libjpeg-turbo and libspng used plainly: whole images, no windows, no margin. */
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
	int components;  /* 1, 3 or 4 (CMYK as it is) */
	int h[4], v[4];  /* sampling factors; 0: 1 */
	int quality;     /* 1..100 */
	int restart;     /* MCUs; 0: none */
	int orientation; /* EXIF; 0: no EXIF */
	bool optimise, progressive, arithmetic;
	bool rgb;      /* stored as RGB, marked by Adobe's transform 0 */
	bool no_adobe; /* leaves Adobe's marker out of a CMYK file */
	bool ycck;
	bool separate;   /* a scan for each component */
	uint64_t script; /* not 0: progressive, by a random script of scans of this seed */
	bool unfinished; /* of which the last AC scan is left out */
	double noise;    /* 0 smooth .. 1 white noise */
	uint64_t seed;   /* of the content */
};

struct test_file test_jpeg_make(const struct test_jpeg *j);

/* The whole image in a colour space of libjpeg's (a J_COLOR_SPACE), tightly packed, or NULL when libjpeg-turbo refuses. Free with free.
 * *lossy: warnings of lost data were given (a guess then). Damage behind the last row counts only if `finish`. */
uint8_t *test_jpeg_reference(struct test_file f, int space, int *width, int *height, bool *lossy);
/* The same at 1/denom of the size: 1, 2, 4 or 8. */
uint8_t *test_jpeg_reference_scaled(struct test_file f, int space, int denom, int *width, int *height, bool *lossy);

struct test_png {
	int width, height;
	int color, bits; /* as in IHDR */
	bool interlaced, transparency;
	int orientation;
	uint64_t seed;
};

struct test_file test_png_make(const struct test_png *p);
/* Channels as stored (palettes as RGB), 16 bits each where the file has 16 (native order), else 8. */
uint8_t *test_png_reference(struct test_file f, const struct test_png *p);

/* Uniform draws that depend on the seed alone. */
uint32_t test_random(uint64_t *state);
int test_random_in(uint64_t *state, int low, int high); /* both included */

/* The seed of a run: STOKER_TEST_SEED, or a fixed one. */
uint64_t test_seed(void);

#endif
