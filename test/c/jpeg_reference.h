/* SPDX-License-Identifier: Apache-2.0
 * libjpeg-turbo as the reference, and files made to order: what the tests of JPEG decoders share. */
#ifndef STK_TEST_JPEG_REFERENCE_H
#define STK_TEST_JPEG_REFERENCE_H

#include "tensor/image.h"

/* Decodes rows 0 .. rows-1 of a file to RGB as libjpeg-turbo does by default (islow, fancy upsampling), malloc'ed. NULL: an error.
 * *warnings: what it complained of on the way, but for bytes between segments. */
uint8_t *jpeg_reference_decode(const uint8_t *data, size_t size, int rows, int *width, int *height, long *warnings);

struct jpeg_shape {
	int width, height, components; /* 1 or 3 */
	int h[3], v[3];                /* sampling factors */
	int restart;                   /* in MCUs, 0: none */
	int quality, optimize;
	int texture;      /* 0 smooth, 1 noise, 2 periodic tiles, 3 mixed, 4 flat */
	int three_tables; /* Cr has tables of its own */
	int scans;        /* 0: baseline; 1: progressive, by libjpeg's script; more: by a random one of so many at most */
};

/* Encodes an image of the shape drawn from seed; malloc'ed. */
uint8_t *jpeg_reference_encode(const struct jpeg_shape *shape, uint64_t seed, size_t *size);

#endif
