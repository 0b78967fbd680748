/* SPDX-License-Identifier: Apache-2.0
 * The size and number of the tiles of kernel/common/texels.cuh. The host uses these functions to count tiles, and each thread block on the GPU to find its
 * tile. */
#ifndef STK_KERNEL_TEXELS_H
#define STK_KERNEL_TEXELS_H

#include "base/hd.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	STK_TEXEL_WIDTH = 32, /* pixels in a row of a tile, one for each lane of a warp */
	STK_TEXEL_ROWS = 128, /* rows of a tile; many, so that the time a thread block waits at its start hardly matters */
	/* a row of a tile begins at most this many pixels before the tile's first column, so that RGB bytes are stored in aligned words */
	STK_TEXEL_SHIFT = 3,
};

/* Returns the number of tiles side by side in an image. aligned: true if all rows begin at a multiple of 4 bytes. */
STK_HD uint32_t stk__texel_across(bool aligned, int32_t width)
{
	return ((uint32_t)width + (aligned ? 0 : STK_TEXEL_SHIFT) + STK_TEXEL_WIDTH - 1) / STK_TEXEL_WIDTH;
}

STK_HD uint32_t stk__texel_down(int32_t height)
{
	return ((uint32_t)height + STK_TEXEL_ROWS - 1) / STK_TEXEL_ROWS;
}

/* Returns true if offsets in bytes in the image fit into int32, and float32 holds all its coordinates exactly. Kernels require this of the image that they
 * read and of their output. pitch: distance in bytes from one row to the next. */
STK_HD bool stk__texel_fits(int32_t width, int32_t height, int64_t pitch)
{
	const int32_t most = 1 << 24;
	int64_t row = pitch < 0 ? -pitch : pitch;
	return width < most && height < most && row <= INT32_MAX / 2 && row * (height + 1) <= INT32_MAX / 2;
}

#endif
