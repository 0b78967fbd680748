/* SPDX-License-Identifier: Apache-2.0
 * How the GPU divides JPEG distortion into thread blocks. In a first launch, each thread block makes and distorts all samples of a tile of pixels, with
 * eight threads for each block of 8 x 8. In a second launch, each thread block makes the pixels of a tile. Two launches are needed because a pixel's colour
 * also depends on samples of neighbouring blocks. */
#ifndef STK_KERNEL_JPEG_DISTORTION_TILE_H
#define STK_KERNEL_JPEG_DISTORTION_TILE_H

#include "kernel/jpeg_distortion/jpeg_distortion.h"

enum {
	STK_JPEG_TILE_WIDTH = 64, /* extents in pixels of a tile of samples: 16 blocks of luma and 8 of chroma */
	STK_JPEG_TILE_HEIGHT = 16,
	STK_JPEG_TILE_THREADS = 192,
	STK_JPEG_PIXEL_WIDTH = 64, /* extents in pixels of a tile of pixels; each thread makes sixteen */
	STK_JPEG_PIXEL_HEIGHT = 64
};

struct stk_jpeg_tiles {
	uint32_t across, down; /* numbers of tiles in a frame */
};

STK_HD struct stk_jpeg_tiles stk__jpeg_sample_tiles(const struct stk_jpeg_distortion *j)
{
	int32_t w = j->wide[0] > 2 * j->wide[1] ? j->wide[0] : 2 * j->wide[1],
		h = j->high[0] > 2 * j->high[1] ? j->high[0] : 2 * j->high[1];
	struct stk_jpeg_tiles t = {(uint32_t)(w + STK_JPEG_TILE_WIDTH - 1) / STK_JPEG_TILE_WIDTH,
		(uint32_t)(h + STK_JPEG_TILE_HEIGHT - 1) / STK_JPEG_TILE_HEIGHT};
	return t;
}

STK_HD struct stk_jpeg_tiles stk__jpeg_pixel_tiles(const struct stk_jpeg_distortion *j)
{
	struct stk_jpeg_tiles t = {((uint32_t)j->width + STK_JPEG_PIXEL_WIDTH - 1) / STK_JPEG_PIXEL_WIDTH,
		((uint32_t)j->height + STK_JPEG_PIXEL_HEIGHT - 1) / STK_JPEG_PIXEL_HEIGHT};
	return t;
}

#endif
