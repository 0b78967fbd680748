/* SPDX-License-Identifier: Apache-2.0
 * Turns samples into pixels. Keeps the samples of the last two rows of MCUs, and writes each row of pixels as soon as it has the samples for it. */
#ifndef STK_CODEC_JPEG_ROWS_H
#define STK_CODEC_JPEG_ROWS_H

#include "base/memory.h"
#include "kernel/jpeg/jpeg_kernels.h"

/* A component's samples under the window's MCUs; sample row y is in row y % ring. */
struct stk_jpeg_plane {
	uint8_t *samples; /* address of sample (x0, 0), with ROW_PAD bytes around each row */
	ptrdiff_t stride;
	int32_t x0; /* column of the first sample */
	int32_t ring;
	int32_t factor_x, factor_y; /* pixels for each sample */
	int32_t first, count, skip; /* samples under the window: the first, their number; pixels of the first before the window */
};

struct stk_jpeg_rows {
	const struct stk_jpeg_kernels *kernels;
	const struct stk_jpeg_scan *scan;
	const struct stk_jpeg_window *window;
	const struct stk_image *dst;
	enum stk_image_type type;
	int32_t planes; /* 1: only luma is needed */
	struct stk_jpeg_plane plane[3];
	uint8_t *line[3]; /* one upsampled row of each component */
	uint8_t *rgb;     /* a row of RGB pixels before its conversion to YCbCr */
	int32_t done;     /* number of finished rows of the image */
	int32_t context;  /* rows of pixels at the lower edge of MCUs that wait for the next row of MCUs */
};

/* Returns whether the fast path can make this type from this scan. *planes: number of components that it needs. */
bool stk__jpeg_rows_supports(const struct stk_jpeg_scan *scan, enum stk_image_type type, int32_t *planes);

/* Fills *r, whose pointers must outlive it; the buffers are taken from scratch. Returns false if memory is short. */
bool stk__jpeg_rows_begin(struct stk_jpeg_rows *r, struct stk_arena *scratch);

/* Returns the address at which the samples of block b of MCU (window.mcu_x0, mcu_y) begin. The next block of the component to the right begins as many bytes
 * later as a block has columns. */
uint8_t *stk__jpeg_rows_block(const struct stk_jpeg_rows *r, int b, int mcu_y);

/* Call after all samples of a row of MCUs are decoded: writes the rows of the window that have all their samples now. */
void stk__jpeg_rows_finish(struct stk_jpeg_rows *r, int mcu_y);

#endif
