/* SPDX-License-Identifier: Apache-2.0
 * How a batch's tables and results lie in memory. */
#ifndef STK_CODEC_JPEG_GPU_LAYOUT_H
#define STK_CODEC_JPEG_GPU_LAYOUT_H

#include "codec/jpeg_gpu/jpeg_gpu_plan.h"

enum {
	STK_JPEG_GPU_MEAN_INTERVAL = 1024, /* bytes of a bitstream: room for this on average over a batch */
	/* for each block of the limits: bytes of coefficients, in whose place pixels come (of gray images 192, else 64 to 128), and DC coefficients, which
	 * rows above the window have too */
	STK_JPEG_GPU_BLOCK_BYTES = 128,
	STK_JPEG_GPU_BLOCK_DC = 4
};

/* Most that the arrays hold. */
struct stk_jpeg_gpu_capacity {
	uint32_t images, bitstreams, subsequences, chunks, sync_work, coefficient_work, lut, scans;
	uint64_t blocks, dc, idct, planes, rgb, coef; /* coef: bytes, or what else lies there */
};

struct stk_jpeg_gpu_capacity stk__jpeg_gpu_capacity(const struct stk_jpeg_gpu_plan_limits *limits);

/* Give the view's arrays their addresses from `base` on, and return the bytes that they take. Tables are as large as the view's numbers say; lut: entries
 * of all sets. */
uint64_t stk__jpeg_gpu_place_tables(struct stk_jpeg_gpu_view *view, uint64_t base, uint64_t lut);
uint64_t stk__jpeg_gpu_place_work(struct stk_jpeg_gpu_view *view, uint64_t base, const struct stk_jpeg_gpu_capacity *capacity);

#endif
