/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/rows/rows.h"
#include "kernel/warp/warp_position.h"

#include <string.h>

static float pixel_at(const struct stk_warp_row *w, int32_t x, int32_t y, int32_t c)
{
	int32_t ix = stk__warp_clamp(x, w->src.width), iy = stk__warp_clamp(y, w->src.height);
	if (!w->clamp && (ix != x || iy != y))
		return w->fill;
	float value;
	const uint8_t *p = (const uint8_t *)w->src.data + iy * w->src.row + ix * w->src.pixel + c * w->src.channel;
	if (w->src.dtype == STK_UINT8)
		return (float)*p;
	stk__row_load(&value, p, 0, 1, w->src.dtype);
	return value;
}

static void warp_row(const struct stk_warp_row *w)
{
	for (int32_t k = 0; k < w->n; k++) {
		struct stk_warp_position at = stk__warp_position(w, k);
		for (int32_t c = 0; c < w->src.channels; c++) {
			float value = pixel_at(w, at.x, at.y, c);
			if (w->linear)
				value = stk__warp_mix(value, pixel_at(w, at.x + 1, at.y, c), pixel_at(w, at.x, at.y + 1, c),
					pixel_at(w, at.x + 1, at.y + 1, c), at.qx, at.qy);
			w->dst[c * w->plane + k] = value;
		}
	}
}

const struct stk_warp_kernels stk__warp_kernels_c = {.row = warp_row};
