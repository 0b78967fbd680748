/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts between sRGB pixels in bytes and CIE L*a*b*. The bytes of L*a*b* are L * 255 / 100, a + 128 and b + 128. The arithmetic is in integers, so
 * that all machines give the same. Scales and rounding are those of OpenCV's conversions of 8-bit images (modules/imgproc, color_lab.cpp), which DALI's
 * clahe uses; a and b differ by 1 in one pixel of ten thousand. */
#ifndef STK_KERNEL_LAB_H
#define STK_KERNEL_LAB_H

#include "base/hd.h"

#include <stdint.h>

/* Lengths of the tables `root` (for t in 0 .. 1.5) and `srgb` (for linear light in 0 .. 1). Fixed-point numbers have these numbers of fraction bits: 3 for
 * linear light (0 .. 255) and XYZ, 15 for cube roots; in the inverse conversion, 14 for XYZ and 12 for linear light. */
enum { STK_LAB_ROOTS = 256 * 3 / 2 * 8, STK_LAB_LIGHTS = 4096 };

struct stk_lab_tables {
	uint16_t light[256];          /* linear light for each byte of sRGB */
	uint16_t root[STK_LAB_ROOTS]; /* f(t) for t in 0 .. 1.5; f is the cube root, or a linear function near 0 */
	int16_t y[256], fy[256];      /* Y and f(Y) for each byte of L */
	uint8_t srgb[STK_LAB_LIGHTS]; /* byte of sRGB for each value of linear light */
};
void stk__lab_tables_init(struct stk_lab_tables *t);

struct stk_lab {
	uint8_t l, a, b;
};

STK_HD int32_t stk__lab_shift(int32_t x, int n)
{
	return (x + (1 << (n - 1))) >> n;
}

STK_HD uint8_t stk__lab_byte(int32_t x)
{
	return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

STK_HD struct stk_lab stk__lab_of(const struct stk_lab_tables *t, const uint8_t *rgb)
{
	int32_t r = t->light[rgb[0]], g = t->light[rgb[1]], b = t->light[rgb[2]];
	int32_t x = t->root[stk__lab_shift(1777 * r + 1541 * g + 778 * b, 12)],
		y = t->root[stk__lab_shift(871 * r + 2929 * g + 296 * b, 12)], z = t->root[stk__lab_shift(73 * r + 448 * g + 3575 * b, 12)];
	struct stk_lab lab;
	lab.l = stk__lab_byte(stk__lab_shift(296 * y - 1336934, 15));
	lab.a = stk__lab_byte(stk__lab_shift(500 * (x - y) + (128 << 15), 15));
	lab.b = stk__lab_byte(stk__lab_shift(200 * (y - z) + (128 << 15), 15));
	return lab;
}

/* Returns the inverse of f (see stk_lab_tables): the cube, or a linear function near 0. */
STK_HD int32_t stk__lab_cube(int32_t f)
{
	const int32_t one = 1 << 14;
	return f <= 3390 ? f * 108 / 841 - one * 16 / 116 * 108 / 841 : f * f / one * f / one;
}

STK_HD int32_t stk__lab_light(int32_t x)
{
	x = stk__lab_shift(x, 14);
	return x < 0 ? 0 : x > STK_LAB_LIGHTS - 1 ? STK_LAB_LIGHTS - 1 : x;
}

STK_HD void stk__lab_to_rgb(const struct stk_lab_tables *t, struct stk_lab lab, uint8_t *rgb)
{
	const int32_t one = 1 << 14;
	int32_t y = t->y[lab.l], f = t->fy[lab.l];
	int32_t x = stk__lab_cube(f + ((5 * lab.a * 53687 + (1 << 7)) >> 13) - 128 * one / 500);
	int32_t z = stk__lab_cube(f - ((lab.b * 41943 + (1 << 4)) >> 9) + 128 * one / 200 - 1);
	rgb[0] = t->srgb[stk__lab_light(12615 * x - 6296 * y - 2223 * z)];
	rgb[1] = t->srgb[stk__lab_light(-3773 * x + 7684 * y + 185 * z)];
	rgb[2] = t->srgb[stk__lab_light(217 * x - 836 * y + 4715 * z)];
}

#endif
