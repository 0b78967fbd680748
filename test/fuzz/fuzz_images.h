/* SPDX-License-Identifier: Apache-2.0
 * What the targets of image decoders ask for, which depends on the input alone. */
#ifndef STK_TEST_FUZZ_IMAGES_H
#define STK_TEST_FUZZ_IMAGES_H

#include "tensor/image.h"

/* Bytes that decoders may read behind a file. */
enum { FUZZ_SLACK = 64 };

/* Where damaged coefficients overflow, ours follow libjpeg-turbo's form for x86 on all processors; its forms for NEON and in C make other pixels. */
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
