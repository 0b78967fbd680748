/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a decoded picture on the GPU to RGB with 8 bits. The result equals that of media/convert.c, bit for bit; media/convert.h states the rule. One
 * thread makes four pixels of a row. */
#ifndef STK_KERNEL_YUV_H
#define STK_KERNEL_YUV_H

#include <stdint.h>

enum { STK_YUV_PIXELS = 4, STK_YUV_THREADS = 128 };

/* The argument of the kernel yuv_to_rgb. Samples are bytes, or 16-bit words that hold a value of 9 to 12 bits, shifted up by `shift`. */
struct stk_yuv_gpu {
	uint64_t planes[3];  /* addresses of Y, Cb and Cr */
	int32_t row[3];      /* distance in bytes from one row to the next */
	int32_t step[3];     /* distance in bytes from one sample to the next */
	int32_t bits, shift; /* number of bits of a sample (8: bytes), and of unused bits below it in its word */
	int32_t width, height;
	int32_t sub_x, sub_y; /* log2 of the number of pixels that a chroma sample covers along each axis */
	/* as in struct stk_yuv_matrix (media/convert.h) */
	int32_t luma, red_v, green_u, green_v, blue_u, luma_zero, chroma_zero;
	int32_t reserved;
	uint64_t to; /* channel c of pixel (x, y) is stored at to + y*to_row + x*to_pixel + c*to_channel */
	int64_t to_row, to_pixel, to_channel;
};

#endif
