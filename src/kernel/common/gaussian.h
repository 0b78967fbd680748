/* SPDX-License-Identifier: Apache-2.0
 * Gaussians drawn into heatmaps on the cores: exp(-(dx^2 + dy^2) / s) = exp(-dx^2 / s) exp(-dy^2 / s), so one of radius r takes r + 1 exponentials. */
#ifndef STK_KERNEL_GAUSSIAN_H
#define STK_KERNEL_GAUSSIAN_H

#include "base/math.h"

#include <stdint.h>

#define STK_GAUSSIAN_TABLE 128

/* exp(-d^2 scale); past the table it is made on the spot. */
static inline double stk__gaussian_at(const double *table, int64_t d, double scale)
{
	d = d < 0 ? -d : d;
	return d < STK_GAUSSIAN_TABLE ? table[d] : stk__exp(-(double)d * (double)d * scale);
}

/* map = max(map, k exp(-(dx^2 + dy^2) scale)) over the square of half-width `radius` around (x, y), as far as it lies in the map. */
static inline void stk__gaussian_draw(
	float *map, int64_t width, int64_t height, int64_t x, int64_t y, int64_t radius, double scale, double k)
{
	if (radius < 0 || x < -radius || y < -radius || x - radius >= width || y - radius >= height)
		return;
	double table[STK_GAUSSIAN_TABLE];
	for (int64_t d = 0; d < STK_GAUSSIAN_TABLE && d <= radius; d++)
		table[d] = stk__exp(-(double)(d * d) * scale);
	int64_t x0 = x > radius ? x - radius : 0, x1 = width - 1 - x < radius ? width - 1 : x + radius;
	int64_t y0 = y > radius ? y - radius : 0, y1 = height - 1 - y < radius ? height - 1 : y + radius;
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
