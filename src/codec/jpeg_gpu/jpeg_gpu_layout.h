/* SPDX-License-Identifier: Apache-2.0
 * The memory layout of a batch's tables and results. */
#ifndef STK_CODEC_JPEG_GPU_LAYOUT_H
#define STK_CODEC_JPEG_GPU_LAYOUT_H

#include "codec/jpeg_gpu/jpeg_gpu_plan.h"

enum {
	STK_JPEG_GPU_MEAN_INTERVAL = 1024, /* assumed average size of a bitstream in bytes, which limits the number of bitstreams */
	/* Number of bytes for each block of the limits: a block's coefficients take 128. Pixels, which overwrite the coefficients, take 192 if a gray image becomes
	 * RGB, and 64 to 128 in other images; stk__jpeg_gpu_plan_need counts more blocks for images that need more than 128. */
	STK_JPEG_GPU_BLOCK_BYTES = 128,
	/* number of DC coefficients for each block of the limits: more than one, since those of rows above the window are stored too */
	STK_JPEG_GPU_BLOCK_DC = 4
};

/* The number of elements in each of a batch's arrays. */
struct stk_jpeg_gpu_capacity {
	uint32_t images, bitstreams, subsequences, chunks, sync_work, coefficient_work, lut, scans;
	uint64_t blocks, dc, idct, planes, rgb, coef; /* coef: size in bytes, including other data that uses the same memory */
};

struct stk_jpeg_gpu_capacity stk__jpeg_gpu_capacity(const struct stk_jpeg_gpu_plan_limits *limits);

/* Set the addresses of the view's arrays, beginning at `base`, and return their total size in bytes. The sizes of tables follow from the counts in the view.
 * lut: total number of entries of all table sets. */
uint64_t stk__jpeg_gpu_place_tables(struct stk_jpeg_gpu_view *view, uint64_t base, uint64_t lut);
uint64_t stk__jpeg_gpu_place_work(struct stk_jpeg_gpu_view *view, uint64_t base, const struct stk_jpeg_gpu_capacity *capacity);

#endif
