/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/equalize/equalize.h"

void stk__equalize_tiles(struct stk_equalize *e, int32_t tiles_x, int32_t tiles_y, float clip_limit)
{
	bool even = e->width % tiles_x == 0 && e->height % tiles_y == 0;
	e->tiles_x = tiles_x;
	e->tiles_y = tiles_y;
	/* As in OpenCV: unless both extents are multiples of their number of tiles, tiles grow by 1 along both axes, even along an axis whose extent is a
	 * multiple. */
	e->tile_w = e->width / tiles_x + !even;
	e->tile_h = e->height / tiles_y + !even;
	double limit = (double)clip_limit * e->tile_w * e->tile_h / STK_EQUALIZE_BINS;
	e->limit = !(clip_limit > 0) ? 0 : limit < 1 ? 1 : limit < 0x1p30 ? (int32_t)limit : 1 << 30;
}
