/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a decoded picture on the GPU to RGB of 8 bits, with the bits that media/convert.c gives; media/convert.h states the rule. One thread makes four
 * pixels of a row. */
#ifndef STK_KERNEL_YUV_H
#define STK_KERNEL_YUV_H

#include <stdint.h>

enum { STK_YUV_PIXELS = 4, STK_YUV_THREADS = 128 };

/* The argument of the kernel yuv_to_rgb. Samples have 8 bits, or 9 to 12 of the upper bits of 16. */
struct stk_yuv_gpu {
	uint64_t planes[3]; /* addresses of Y, Cb and Cr */
	int32_t row[3];     /* bytes from a row to the next */
	int32_t step[3];    /* bytes from a sample to the next */
	int32_t bits, shift;
	int32_t width, height;
	int32_t sub_x, sub_y; /* log2 of the pixels that a sample of chroma covers */
	int32_t luma, red_v, green_u, green_v, blue_u, luma_zero, chroma_zero;
	int32_t reserved;
	uint64_t to; /* where channel c of pixel (x, y) goes: to + y*to_row + x*to_pixel + c*to_channel */
	int64_t to_row, to_pixel, to_channel;
};

#endif
