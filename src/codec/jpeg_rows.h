/* SPDX-License-Identifier: Apache-2.0
 * Turns samples into pixels. Keeps the samples of the last two rows of MCUs, and writes each row of pixels as soon as all samples that it needs are decoded. */
#ifndef STK_CODEC_JPEG_ROWS_H
#define STK_CODEC_JPEG_ROWS_H

#include "base/memory.h"
#include "kernel/jpeg/jpeg_kernels.h"

/* The samples of a component that the window needs. Row y of samples is stored in row y % ring. */
struct stk_jpeg_plane {
	uint8_t *samples; /* address of sample (x0, 0); ROW_PAD bytes precede and follow each row */
	ptrdiff_t stride;
	int32_t x0; /* column of the first sample in the component */
	int32_t ring;
	int32_t factor_x, factor_y; /* number of pixels that a sample covers along x and along y */
	int32_t first, count, skip; /* samples under the window: index of the first, number of samples, and number of the first
	                             * sample's pixels that are left of the window */
};

struct stk_jpeg_rows {
	const struct stk_jpeg_kernels *kernels;
	const struct stk_jpeg_scan *scan;
	const struct stk_jpeg_window *window;
	const struct stk_image *dst;
	enum stk_image_type type;
	int32_t planes; /* number of components that are needed: 1 (luma) or all */
	struct stk_jpeg_plane plane[3];
	uint8_t *line[3]; /* one row of each component after upsampling */
	uint8_t *rgb;     /* a row of RGB pixels before its conversion to YCbCr */
	int32_t done;     /* number of rows of the image that are finished */
	int32_t context;  /* number of rows of pixels at the lower edge of a row of MCUs that need samples of the next row of MCUs */
};

/* Returns whether pixels of this type can be made from this scan. *planes: set to the number of components that are needed. */
bool stk__jpeg_rows_supports(const struct stk_jpeg_scan *scan, enum stk_image_type type, int32_t *planes);

/* Completes *r, whose members up to `planes` the caller has set; the objects that r points to must outlive it. Takes buffers from scratch. Returns false if
 * memory runs out. */
bool stk__jpeg_rows_begin(struct stk_jpeg_rows *r, struct stk_arena *scratch);

/* Returns the address at which the samples of block b of MCU (window.mcu_x0, mcu_y) are stored. The next block of the component is one block's width away. */
uint8_t *stk__jpeg_rows_block(const struct stk_jpeg_rows *r, int b, int mcu_y);

/* Writes the rows of the window whose samples are now complete. Call it after all samples of row mcu_y of MCUs have been decoded. */
void stk__jpeg_rows_finish(struct stk_jpeg_rows *r, int mcu_y);

#endif
