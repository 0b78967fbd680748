/* SPDX-License-Identifier: Apache-2.0
 * Describes images in memory, and rectangles in them. */
#ifndef STK_TENSOR_IMAGE_H
#define STK_TENSOR_IMAGE_H

#include "stoker/tensor.h"

/* A rectangle, in pixels. It may begin at negative positions and reach outside of an image. */
struct stk_rect {
	int32_t x, y, w, h;
};

/* Describes an image in memory, which belongs to other code. Channel c of pixel (x, y) is at data + y*row + x*pixel + c*channel (all in bytes). In
 * interleaved images `channel` is the element size; in planar images `pixel` is. */
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

/* Returns whether values of this type are enumeration constants, which operators do not compute with. */
static inline bool stk__dtype_enumeration(enum stk_dtype dtype)
{
	return (int)dtype > (int)STK_DTYPE_COUNT;
}

/* Returns the type in which elements of a type are stored: int32 for enumerations, otherwise the type itself. */
static inline enum stk_dtype stk__dtype_stored(enum stk_dtype dtype)
{
	return stk__dtype_enumeration(dtype) ? STK_INT32 : dtype;
}

/* Returns whether float32 holds all values of the type exactly. */
bool stk__dtype_in_float(enum stk_dtype dtype);

/* Returns whether pointwise steps, which compute in float32, accept the type: all types that float32 holds exactly, and int32, whose values are rounded. */
static inline bool stk__dtype_in_steps(enum stk_dtype dtype)
{
	return dtype == STK_INT32 || stk__dtype_in_float(dtype);
}

#endif
