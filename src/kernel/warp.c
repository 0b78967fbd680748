/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/rows.h"

static int32_t clamp(int32_t x, int32_t low, int32_t high)
{
	return x < low ? low : x > high ? high : x;
}

/* floor, for positions of any size: far outside is far outside. */
static int32_t floor_position(float x)
{
	if (!(x > -1e9f))
		return -1000000000;
	if (x > 1e9f)
		return 1000000000;
	int32_t i = (int32_t)x;
	return i - ((float)i > x);
}

static float pixel_at(const struct stk_warp_row *w, int32_t x, int32_t y, int32_t c)
{
	int32_t ix = clamp(x, 0, w->src.width - 1), iy = clamp(y, 0, w->src.height - 1);
	if (!w->clamp && (ix != x || iy != y))
		return w->fill;
	float value;
	stk__row_load(&value, (const uint8_t *)w->src.data + iy * w->src.row + ix * w->src.pixel + c * w->src.channel, 0, 1, w->src.dtype);
	return value;
}

static void warp_row(const struct stk_warp_row *w)
{
	float half = w->linear ? 0.5f : 0, fy = (float)w->y + 0.5f;
	for (int32_t k = 0; k < w->n; k++) {
		float fx = (float)(w->first + k * w->step) + 0.5f;
		float x = w->m[0] * fx + w->m[1] * fy + w->m[2] - half, y = w->m[3] * fx + w->m[4] * fy + w->m[5] - half;
		int32_t ix = floor_position(x), iy = floor_position(y);
		float qx = x - (float)ix, qy = y - (float)iy;
		for (int32_t c = 0; c < w->src.channels; c++) {
			float value = pixel_at(w, ix, iy, c);
			if (w->linear) {
				float right = pixel_at(w, ix + 1, iy, c), below = pixel_at(w, ix, iy + 1, c),
				      diagonal = pixel_at(w, ix + 1, iy + 1, c);
				float top = value + (right - value) * qx, bottom = below + (diagonal - below) * qx;
				value = top + (bottom - top) * qy;
			}
			w->dst[c * w->plane + k] = value;
		}
	}
}

const struct stk_warp_kernels stk__warp_c = {.row = warp_row};
