/* SPDX-License-Identifier: Apache-2.0
 * Converts RGB to YCbCr in studio range (ITU-R BT.601), in C and CUDA. Rounds to nearest, halves away from 0. */
#ifndef STK_KERNEL_YCBCR_H
#define STK_KERNEL_YCBCR_H

#include "base/hd.h"

#include <math.h>
#include <stdint.h>

/* Converts one pixel; out: Y, Cb, Cr. unit: the largest value of a channel divided by 255, so 1 for 8-bit and 257 for 16-bit values. */
STK_HD void stk__rgb_to_ycbcr(int32_t red, int32_t green, int32_t blue, float unit, int32_t out[3])
{
	float r = (float)red, g = (float)green, b = (float)blue;
	out[0] = (int32_t)roundf(0.25678824f * r + 0.50412941f * g + 0.09790588f * b + 16 * unit);
	out[1] = (int32_t)roundf(-0.14822290f * r - 0.29099279f * g + 0.43921569f * b + 128 * unit);
	out[2] = (int32_t)roundf(0.43921569f * r - 0.36778831f * g - 0.07142737f * b + 128 * unit);
}

#endif
