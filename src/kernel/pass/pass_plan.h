/* SPDX-License-Identifier: Apache-2.0
 * How the CPU runs a pass: values that are computed from a struct stk_pass before it runs, and the layout of its scratch memory. Only files of this folder
 * include it; pass_gpu.c, the host's part of passes on the GPU, uses the same geometry. */
#ifndef STK_KERNEL_PASS_PLAN_H
#define STK_KERNEL_PASS_PLAN_H

#include "kernel/pass/pass.h"
#include "kernel/pass/pass_kernels.h"
#include "kernel/resample/filter.h"

struct stk_span {
	int32_t begin, end;
};

/* Returns the range of output positions along an axis (0: x, 1: y) that come from the source, or {0, 0} if none do. Other positions get the fill value. */
struct stk_span stk__pass_valid(const struct stk_pass *p, int axis);

/* Returns whether the pass changes no value, so that elements of any type can be copied as bytes. */
bool stk__pass_pure_geometry(const struct stk_pass *p);

/* Returns the filter of a resize along an axis, in the sampler's coordinates. */
struct stk_filter_axis stk__pass_resize_axis(const struct stk_pass *p, int axis);

/* How sampled rows are stored: directly in the output, or as planes of uint8 or float32 in a block of rows, on which steps then work. */
enum stk_pass_rows { STK_ROWS_COPY, STK_ROWS_U8, STK_ROWS_FLOAT };

struct stk_plan {
	enum stk_pass_rows rows;
	bool nearest;         /* the pass is a resize that copies the nearest pixel along both axes */
	struct stk_span x, y; /* valid outputs */
	int32_t max_channels; /* the maximum number of channels of a row at any step */
	/* strides of the block of rows: max_channels planes of STK_BLOCK_ROWS rows of `pitch` elements */
	ptrdiff_t pitch, plane;
	/* the members up to `chunk` are only used by resizes */
	struct stk_filter_axis axis[2];
	enum stk_resample_kind kind;
	uint16_t bias[2]; /* for NARROW: the bias of each axis (resample.h) */
	int32_t chunk;    /* number of output columns made at a time, a multiple of 16 */
	/* offsets in the scratch memory; 0 if not needed */
	size_t at_nearest[2]; /* for each axis, a table of int32: the position in the sampler's input for each of the sampler's outputs */
	/* in this order: the block of rows; lines of float32 for one row; for each column its first source pixel, and its weights; the weights of a block's
	 * rows; the taps of one output before they are quantised; the intermediate values of a resize; source rows as float32 */
	size_t at_block, at_line, at_first, at_weights, at_row_weights, at_taps, at_transposed, at_staged;
	ptrdiff_t staged_pitch; /* number of elements of a row converted to float32; 0 if the kernels read the source itself */
	size_t bytes;
};

void stk__plan_make(struct stk_plan *plan, const struct stk_pass *p);

/* One run of a pass. Shared by the run loop (pass_run.c) and the code for resizes (pass_resize.c) and copies (pass_copy.c). */
struct stk_run {
	const struct stk_pass *p;
	const struct stk_plan *plan;
	const struct stk_pass_kernels *k;
	struct stk_image src;
	int32_t x0, y0; /* position in the whole source of the first pixel of src */
	struct stk_image dst;
	uint8_t *scratch;
};

/* Returns the address of the source pixel at (x, y) of the whole source. */
static inline const uint8_t *stk__run_pixel(const struct stk_run *run, int32_t x, int32_t y)
{
	return (const uint8_t *)run->src.data + (ptrdiff_t)(y - run->y0) * run->src.row + (ptrdiff_t)(x - run->x0) * run->src.pixel;
}

/* Returns the position along an axis (0: x, 1: y) of the source pixel that becomes output k. Not for warps, nor for resizes that have weights. */
static inline int32_t stk__run_position(const struct stk_run *run, int axis, int32_t k)
{
	const struct stk_axis_map *pre = &run->p->pre[axis], *post = &run->p->post[axis];
	if (run->plan->nearest)
		k = ((const int32_t *)(const void *)(run->scratch + run->plan->at_nearest[axis]))[post->first + post->step * k];
	return pre->first + pre->step * k;
}

/* Computes the taps of all output columns. Call it once for each run, before stk__run_resize_rows. */
void stk__run_resize_begin(const struct stk_run *run);
/* Writes outputs y .. y + rows - 1 (rows <= 16) into the block, from column plan->x.begin on. Up to 15 columns past plan->x.end are overwritten. */
void stk__run_resize_rows(const struct stk_run *run, int32_t y, int32_t rows);

#endif
