/* SPDX-License-Identifier: Apache-2.0
 * Draws Gaussians into heatmaps on the CPU. Since exp(-(dx^2 + dy^2) / s) = exp(-dx^2 / s) exp(-dy^2 / s), a Gaussian of radius r needs only r + 1
 * exponentials, up to a radius of 127. */
#ifndef STK_KERNEL_GAUSSIAN_H
#define STK_KERNEL_GAUSSIAN_H

#include "base/math.h"

#include <stdbool.h>
#include <stdint.h>

#define STK_GAUSSIAN_TABLE 128

/* Returns exp(-d^2 scale), from the table if |d| is below STK_GAUSSIAN_TABLE. */
static inline double stk__gaussian_at(const double *table, int64_t d, double scale)
{
	d = d < 0 ? -d : d;
	return d < STK_GAUSSIAN_TABLE ? table[d] : stk__exp(-(double)d * (double)d * scale);
}

/* Sets *first and *last to the interval x - radius .. x + radius, clipped to 0 .. size - 1. Returns false if nothing remains. All values of x and radius are
 * allowed: no sum can overflow, since its terms have different signs or it is below size. */
static inline bool stk__gaussian_clip(int64_t x, int64_t radius, int64_t size, int64_t *first, int64_t *last)
{
	if (radius < 0 || size < 1 || (x < 0 ? x + radius < 0 : x >= size && x - radius >= size))
		return false;
	*first = x > radius ? x - radius : 0;
	if (x < 0)
		*last = x + radius < size ? x + radius : size - 1;
	else
		*last = radius < size - 1 - x ? x + radius : size - 1;
	return true;
}

/* Sets map = max(map, k exp(-(dx^2 + dy^2) scale)) over the square of half-width `radius` around (x, y), clipped to the map. */
static inline void stk__gaussian_draw(
	float *map, int64_t width, int64_t height, int64_t x, int64_t y, int64_t radius, double scale, double k)
{
	int64_t x0, x1, y0, y1;
	if (!stk__gaussian_clip(x, radius, width, &x0, &x1) || !stk__gaussian_clip(y, radius, height, &y0, &y1))
		return;
	double table[STK_GAUSSIAN_TABLE];
	for (int64_t d = 0; d < STK_GAUSSIAN_TABLE && d <= radius; d++)
		table[d] = stk__exp(-(double)(d * d) * scale);
	for (int64_t v = y0; v <= y1; v++) {
		double row = k * stk__gaussian_at(table, v - y, scale);
		for (int64_t u = x0; u <= x1; u++) {
			float value = (float)(row * stk__gaussian_at(table, u - x, scale));
			float *at = map + v * width + u;
			*at = value > *at ? value : *at;
		}
	}
}

#endif
