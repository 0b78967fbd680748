/* SPDX-License-Identifier: Apache-2.0
 *
 * Affine warp, one row at a time. The origin is the upper left corner of the upper left pixel (DALI's convention): output (x, y) is read at the source
 * position (m[0] (x + .5) + m[1] (y + .5) + m[2],  m[3] (x + .5) + m[4] (y + .5) + m[5]). NN reads the pixel at that position (floor). LINEAR interpolates
 * between the four pixels whose centres surround it: first along x, then along y. */
#ifndef STK_KERNEL_WARP_H
#define STK_KERNEL_WARP_H

#include "tensor/image.h"

struct stk_warp_row {
	struct stk_image src; /* the source; its size determines what is outside, but only pixels that are read must be in memory */
	float m[6];
	int32_t first, step, y; /* pixel k of the row is pixel (first + k * step, y) of the output image */
	int32_t n;
	bool linear, clamp;
	float fill;
	float *dst; /* the n values of channel c are stored at dst + c * plane */
	ptrdiff_t plane;
};

struct stk_warp_kernels {
	void (*row)(const struct stk_warp_row *w);
};

void stk__warp_kernels_init(struct stk_warp_kernels *k, unsigned cpu); /* cpu: STK_CPU_... (base/cpu.h) */
void stk__warp_kernels_x86(struct stk_warp_kernels *k, unsigned cpu);  /* called by stk__warp_kernels_init */
extern const struct stk_warp_kernels stk__warp_kernels_c, stk__warp_kernels_avx2;

#endif
