/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic of a warp in C and CUDA. warp_avx2.c computes the same with vectors. */
#ifndef STK_KERNEL_WARP_POSITION_H
#define STK_KERNEL_WARP_POSITION_H

#include "base/hd.h"
#include "kernel/warp/warp.h"

struct stk_warp_position {
	int32_t x, y; /* the pixel that NN reads, or the upper left one of the four that LINEAR interpolates */
	float qx, qy; /* weights (0 to 1) of the pixels at x + 1 and at y + 1 */
};

STK_HD int32_t stk__warp_clamp(int32_t x, int32_t size)
{
	return x < 0 ? 0 : x < size ? x : size - 1;
}

/* Returns floor(x), limited to -1e9 .. 1e9; -1e9 for NaN. */
STK_HD int32_t stk__warp_floor(float x)
{
	x = x > -1e9f ? x : -1e9f;
	x = x < 1e9f ? x : 1e9f;
	int32_t i = (int32_t)x;
	return i - ((float)i > x);
}

/* Computes the source position of pixel k of the row: x in at[0], y in at[1]. If w->linear, subtracts 0.5 from both, so that integers are the centres of
 * pixels. */
STK_HD void stk__warp_place(const struct stk_warp_row *w, int32_t k, float at[2])
{
	float half = w->linear ? 0.5f : 0, fx = (float)(w->first + k * w->step) + 0.5f, fy = (float)w->y + 0.5f;
	at[0] = w->m[0] * fx + (w->m[1] * fy + w->m[2]) - half;
	at[1] = w->m[3] * fx + (w->m[4] * fy + w->m[5]) - half;
}

STK_HD struct stk_warp_position stk__warp_split(const float at[2])
{
	struct stk_warp_position p;
	p.x = stk__warp_floor(at[0]);
	p.y = stk__warp_floor(at[1]);
	p.qx = at[0] - (float)p.x;
	p.qy = at[1] - (float)p.y;
	return p;
}

STK_HD struct stk_warp_position stk__warp_position(const struct stk_warp_row *w, int32_t k)
{
	float at[2];
	stk__warp_place(w, k, at);
	return stk__warp_split(at);
}

/* Returns the value interpolated between four pixels: along x with weight qx of s01 and s11, then along y with weight qy of s10 and s11. */
STK_HD float stk__warp_mix(float s00, float s01, float s10, float s11, float qx, float qy)
{
	float px = 1 - qx, top = s00 * px + s01 * qx, bottom = s10 * px + s11 * qx;
	return top + (bottom - top) * qy;
}

#endif
