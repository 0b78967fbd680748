/* SPDX-License-Identifier: Apache-2.0
 * The tiles of kernel/common/texels.cuh, for the host, which counts them, and the GPU alike. */
#ifndef STK_KERNEL_TEXELS_H
#define STK_KERNEL_TEXELS_H

#include "base/hd.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	STK_TEXEL_WIDTH = 32, /* pixels of a tile's row: a warp's */
	STK_TEXEL_ROWS = 128, /* so many that it hardly matters what a thread block waits for before it begins */
	STK_TEXEL_SHIFT = 3,  /* pixels at most that a row of a tile begins further left, so that RGB bytes are stored in aligned words */
};

/* Tiles side by side. aligned: all rows begin at a multiple of 4 bytes. */
STK_HD uint32_t stk__texel_across(bool aligned, int32_t width)
{
	return ((uint32_t)width + (aligned ? 0 : STK_TEXEL_SHIFT) + STK_TEXEL_WIDTH - 1) / STK_TEXEL_WIDTH;
}

STK_HD uint32_t stk__texel_down(int32_t height)
{
	return ((uint32_t)height + STK_TEXEL_ROWS - 1) / STK_TEXEL_ROWS;
}

/* True for images in which offsets fit int32, and of whose extents floats hold all whole numbers: of sources and outputs alike. pitch: bytes from one row to the
 * next. */
STK_HD bool stk__texel_fits(int32_t width, int32_t height, int64_t pitch)
{
	const int32_t most = 1 << 24;
	int64_t row = pitch < 0 ? -pitch : pitch;
	return width < most && height < most && row <= INT32_MAX / 2 && row * (height + 1) <= INT32_MAX / 2;
}

#endif
