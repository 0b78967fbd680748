/* SPDX-License-Identifier: Apache-2.0
 * Helpers to decode images in tests. */
#ifndef STK_TEST_DECODING_H
#define STK_TEST_DECODING_H

#include "codec/codec.h"
#include "image_files.h"

/* Creates a decoder with the fastest kernels; fails the test if memory runs out. limits: NULL for the defaults. */
struct stk_decoder *test_decoder(const struct stk_codec_limits *limits);

/* Reads the header, then decodes into memory with guard bytes around it; fails the test if those change. window: NULL for the whole image. Returns pixels to
 * be freed with free, or NULL and the status if the decoder refuses the file. */
uint8_t *test_decode(struct stk_decoder *d, struct test_file f, enum stk_image_type type, enum stk_dtype dtype, bool orient,
	const struct stk_rect *window, enum stk_status *status, struct stk_error *err);

/* Like test_decode, but decodes at 1/denom of the size; `window` is in pixels of the smaller image. */
uint8_t *test_decode_scaled(struct stk_decoder *d, struct test_file f, enum stk_image_type type, enum stk_dtype dtype, bool orient,
	int32_t denom, const struct stk_rect *window, enum stk_status *status, struct stk_error *err);

/* Returns whether `got`, a decoded window, equals the rectangle w of `want`. width: number of pixels in a row of `want`. pixel: number of bytes of a
 * pixel. Prints the first difference. */
bool test_window_equal(const uint8_t *got, const uint8_t *want, int width, size_t pixel, struct stk_rect w);

struct stk_rect test_window(uint64_t *random, int width, int height);

#endif
