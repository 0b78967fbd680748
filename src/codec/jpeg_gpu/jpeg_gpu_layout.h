/* SPDX-License-Identifier: Apache-2.0
 * The memory layout of a batch's tables and results. */
#ifndef STK_CODEC_JPEG_GPU_LAYOUT_H
#define STK_CODEC_JPEG_GPU_LAYOUT_H

#include "codec/jpeg_gpu/jpeg_gpu_plan.h"

enum {
	STK_JPEG_GPU_MEAN_INTERVAL = 1024, /* average bytes of a bitstream for which a batch has room */
	/* Bytes for each block of the limits: coefficients, which pixels replace later (192 for gray images, else 64 to 128), and DC coefficients, which rows above
  * the window have too. */
	STK_JPEG_GPU_BLOCK_BYTES = 128,
	STK_JPEG_GPU_BLOCK_DC = 4
};

/* Numbers of elements of a batch's arrays. */
struct stk_jpeg_gpu_capacity {
	uint32_t images, bitstreams, subsequences, chunks, sync_work, coefficient_work, lut, scans;
	uint64_t blocks, dc, idct, planes, rgb, coef; /* coef: bytes, including other data that uses the same memory */
};

struct stk_jpeg_gpu_capacity stk__jpeg_gpu_capacity(const struct stk_jpeg_gpu_plan_limits *limits);

/* Set the addresses of the view's arrays, from `base` on, and return their size in bytes. The sizes of tables follow from the view's numbers; lut: number of
 * entries of all sets. */
uint64_t stk__jpeg_gpu_place_tables(struct stk_jpeg_gpu_view *view, uint64_t base, uint64_t lut);
uint64_t stk__jpeg_gpu_place_work(struct stk_jpeg_gpu_view *view, uint64_t base, const struct stk_jpeg_gpu_capacity *capacity);

#endif
