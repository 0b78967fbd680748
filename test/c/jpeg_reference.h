/* SPDX-License-Identifier: Apache-2.0
 * Decodes with libjpeg-turbo for reference, and generates JPEG files; shared by the tests of JPEG decoders. */
#ifndef STK_TEST_JPEG_REFERENCE_H
#define STK_TEST_JPEG_REFERENCE_H

#include "tensor/image.h"

/* Decodes rows 0 .. rows-1 of a file to RGB with libjpeg-turbo's defaults (islow, fancy upsampling). Returns pixels to be freed with free, or NULL after an
 * error. *width, *height: set to the image's size. *warnings: set to the number of warnings, except those about bytes between segments. */
uint8_t *jpeg_reference_decode(const uint8_t *data, size_t size, int rows, int *width, int *height, long *warnings);

struct jpeg_shape {
	int width, height, components; /* 1 or 3 */
	int h[3], v[3];                /* sampling factors */
	int restart;                   /* restart interval in MCUs; 0: none */
	int quality, optimize;
	int texture;      /* 0 smooth, 1 noise, 2 periodic tiles, 3 mixed, 4 flat */
	int three_tables; /* Cr has its own tables */
	int scans; /* 0: baseline; 1: progressive, by libjpeg's script; more: progressive, by a random script of at most this many scans */
};

/* Encodes an image whose content is drawn from the seed. Returns *size bytes, to be freed with free. */
uint8_t *jpeg_reference_encode(const struct jpeg_shape *shape, uint64_t seed, size_t *size);

#endif
