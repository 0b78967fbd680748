/* SPDX-License-Identifier: Apache-2.0
 * Decoding as tests do it. */
#ifndef STK_TEST_DECODING_H
#define STK_TEST_DECODING_H

#include "codec/codec.h"
#include "image_files.h"

/* For the fastest kernels; fails the test without memory. limits: NULL for the defaults. */
struct stk_decoder *test_decoder(const struct stk_codec_limits *limits);

/* Peeks and decodes into memory with guard bytes around; fails the test if those change. window: NULL for the whole image. To be freed with
 * free; NULL, with the status, when the decoder refuses. */
uint8_t *test_decode(struct stk_decoder *d, struct test_file f, enum stk_image_type type, enum stk_dtype dtype, bool orient,
	const struct stk_rect *window, enum stk_status *status, struct stk_error *err);

/* The same at 1/denom of the size; window in pixels of that size. */
uint8_t *test_decode_scaled(struct stk_decoder *d, struct test_file f, enum stk_image_type type, enum stk_dtype dtype, bool orient,
	int32_t denom, const struct stk_rect *window, enum stk_status *status, struct stk_error *err);

/* Whether a decoded window equals its part of a whole image of `width` pixels of `pixel` bytes; prints where it does not. */
bool test_window_equal(const uint8_t *got, const uint8_t *want, int width, size_t pixel, struct stk_rect w);

struct stk_rect test_window(uint64_t *random, int width, int height);

#endif
