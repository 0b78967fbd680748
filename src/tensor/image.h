/* SPDX-License-Identifier: Apache-2.0
 * A view of an image in memory, and rectangles in it. */
#ifndef STK_TENSOR_IMAGE_H
#define STK_TENSOR_IMAGE_H

#include "stoker/tensor.h"

/* x, y may be negative or outside: a window over an image, not a promise about it. */
struct stk_rect {
	int32_t x, y, w, h;
};

/* Pixel (x, y), channel c is at data + y*row + x*pixel + c*channel (bytes). Interleaved: channel == element size; planar: pixel is. */
struct stk_image {
	void *data;
	enum stk_dtype dtype;
	int32_t width, height, channels;
	ptrdiff_t row, pixel, channel;
};

static inline struct stk_image stk__image_hwc(void *data, enum stk_dtype dtype, int32_t width, int32_t height, int32_t channels)
{
	ptrdiff_t size = (ptrdiff_t)stk_dtype_size(dtype);
	struct stk_image image = {data, dtype, width, height, channels, size * channels * width, size * channels, size};
	return image;
}

static inline struct stk_image stk__image_chw(void *data, enum stk_dtype dtype, int32_t width, int32_t height, int32_t channels)
{
	ptrdiff_t size = (ptrdiff_t)stk_dtype_size(dtype);
	struct stk_image image = {data, dtype, width, height, channels, size * width, size, size * width * height};
	return image;
}

/* True for values of enumerations, which are no numbers to compute with. */
static inline bool stk__dtype_enumeration(enum stk_dtype dtype)
{
	return (int)dtype > (int)STK_DTYPE_COUNT;
}

/* The type that elements are stored as. */
static inline enum stk_dtype stk__dtype_stored(enum stk_dtype dtype)
{
	return stk__dtype_enumeration(dtype) ? STK_INT32 : dtype;
}

/* True for types whose values float32 holds exactly: those that passes compute on. */
bool stk__dtype_in_float(enum stk_dtype dtype);

/* True for types on which pointwise steps compute: those, and int32, of which steps see the nearest float32. */
static inline bool stk__dtype_in_steps(enum stk_dtype dtype)
{
	return dtype == STK_INT32 || stk__dtype_in_float(dtype);
}

#endif
