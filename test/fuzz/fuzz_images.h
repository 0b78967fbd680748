/* SPDX-License-Identifier: Apache-2.0
 * The choices that the image decoders' targets make, which depend only on the input. */
#ifndef STK_TEST_FUZZ_IMAGES_H
#define STK_TEST_FUZZ_IMAGES_H

#include "tensor/image.h"

/* Number of bytes after a file that decoders may read. */
enum { FUZZ_SLACK = 64 };

/* If damaged coefficients overflow, our decoder gives the same pixels as libjpeg-turbo's x86 code, on all processors; libjpeg-turbo's NEON and C code give
 * others. */
#ifdef __x86_64__
enum { FUZZ_COMPARES_PIXELS = 1 };
#else
enum { FUZZ_COMPARES_PIXELS = 0 };
#endif

static inline uint32_t fuzz_hash(const uint8_t *data, size_t size)
{
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ data[i]) * 16777619u;
	return hash;
}

static inline struct stk_rect fuzz_window(uint32_t hash, int32_t width, int32_t height)
{
	struct stk_rect w = {(int32_t)(hash % (uint32_t)width), (int32_t)(hash / 7 % (uint32_t)height), 0, 0};
	w.w = 1 + (int32_t)(hash / 77 % (uint32_t)(width - w.x));
	w.h = 1 + (int32_t)(hash / 777 % (uint32_t)(height - w.y));
	return w;
}

#endif
