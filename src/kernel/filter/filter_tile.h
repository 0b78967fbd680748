/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GPU divides filters of images into tiles. A thread block loads the input that a tile's windows cover into shared memory once, as float32 and
 * including the border, and makes all outputs of the tile from it. For separable windows it stores the results of the rows in shared memory too, and then
 * processes their columns. Other filters are computed value by value (filter_element.h): among them those of volumes, of more than 32 channels, with windows
 * that need too much shared memory, and medians of windows other than 3 x 3 and 5 x 5. Tiles and single values give the same bits. */
#ifndef STK_KERNEL_FILTER_TILE_H
#define STK_KERNEL_FILTER_TILE_H

#include "base/hd.h"
#include "kernel/filter/filter.h"

enum stk_filter_tiling {
	STK_FILTER_SUM_TILES,     /* weighted sums over separable windows */
	STK_FILTER_EXTREME_TILES, /* minimum or maximum over separable windows */
	STK_FILTER_DENSE_TILES,   /* weighted sums over dense windows */
	STK_FILTER_MEDIAN_TILES,  /* medians of 3 x 3 and 5 x 5 */
	STK_FILTER_TILINGS,
	STK_FILTER_NO_TILES = STK_FILTER_TILINGS
};

enum {
	STK_FILTER_TILE_WARPS = 10,
	STK_FILTER_TILE_RUN = 5,                              /* number of adjacent outputs of one channel that a lane makes */
	STK_FILTER_TILE_DEEP = 8,                             /* number of outputs that a thread makes at a time in a column */
	STK_FILTER_TILE_VALUES = 32 * STK_FILTER_TILE_RUN,    /* maximum number of outputs of a warp in a row */
	STK_FILTER_TILE_THREADS = 2 * STK_FILTER_TILE_VALUES, /* two threads per column */
	STK_FILTER_TILE_WEIGHTS = 256,                        /* maximum number of weights of all windows together */
	STK_FILTER_TILE_ROWS = 32,                            /* rows of outputs in a tile; a tile has fewer if windows are high */
	STK_FILTER_TILE_SHARED = 47104                        /* maximum size in bytes of a thread block's shared memory */
};

/* The range along an axis that the windows of all terms cover together. */
struct stk_filter_cover {
	int32_t first, size;
};

struct stk_filter_tiles {
	struct stk_filter_cover x, y;
	int32_t width, height; /* extents of a tile in positions */
	uint32_t across, down; /* number of tiles along the width and the height of an image */
	int32_t pitch;         /* number of floats of an input row, including padding for alignment */
	uint32_t shared;       /* bytes of shared memory; if more than STK_FILTER_TILE_SHARED, the windows are too large for tiles */
};

STK_HD struct stk_filter_cover stk__filter_cover(const struct stk_filter *f, int axis)
{
	int32_t first = f->window[0][axis].first, end = first + f->window[0][axis].size;
	for (int t = 1; t < f->n_terms; t++) {
		const struct stk_filter_window *w = &f->window[t][axis];
		first = w->first < first ? w->first : first;
		end = w->first + w->size > end ? w->first + w->size : end;
	}
	struct stk_filter_cover cover = {first, end - first};
	return cover;
}

/* Returns the number of floats in shared memory after the weights. Separable windows: an input row with its padding for each warp, and `rows` rows of results
 * for each term. Dense windows: `rows` input rows, the position of each row's first value, and a row of results for each warp. */
STK_HD int64_t stk__filter_tile_floats(const struct stk_filter *f, int32_t pitch, int32_t rows)
{
	if (f->dense)
		return (int64_t)rows * (pitch + 1) + (int64_t)STK_FILTER_TILE_WARPS * STK_FILTER_TILE_VALUES;
	return (int64_t)STK_FILTER_TILE_WARPS * pitch + (int64_t)f->n_terms * rows * STK_FILTER_TILE_VALUES;
}

/* Returns the tiles of a filter with at most 32 channels. */
STK_HD struct stk_filter_tiles stk__filter_tiles(const struct stk_filter *f)
{
	struct stk_filter_tiles t;
	t.x = stk__filter_cover(f, 2);
	t.y = stk__filter_cover(f, 1);
	t.width = 32 / f->channels * STK_FILTER_TILE_RUN;
	int64_t pitch = ((int64_t)STK_FILTER_TILE_VALUES + ((int64_t)t.x.size - 1) * f->channels + 7) & ~(int64_t)3, bytes = 0;
	pitch = pitch < STK_FILTER_TILE_SHARED ? pitch : STK_FILTER_TILE_SHARED;
	t.pitch = (int32_t)pitch;
	int32_t high = t.y.size < STK_FILTER_TILE_SHARED ? t.y.size : STK_FILTER_TILE_SHARED;
	for (t.height = STK_FILTER_TILE_ROWS;; t.height /= 2) {
		bytes = 4 * (STK_FILTER_TILE_WEIGHTS + stk__filter_tile_floats(f, t.pitch, t.height + high - 1));
		if (bytes <= STK_FILTER_TILE_SHARED || t.height == STK_FILTER_TILE_DEEP)
			break;
	}
	t.shared = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
	t.across = ((uint32_t)f->out[2] + (uint32_t)t.width - 1) / (uint32_t)t.width;
	t.down = ((uint32_t)f->out[1] + (uint32_t)t.height - 1) / (uint32_t)t.height;
	return t;
}

STK_HD uint64_t stk__filter_tile_blocks(const struct stk_filter *f, const struct stk_filter_tiles *t)
{
	return (uint64_t)f->outer * t->across * t->down;
}

STK_HD int64_t stk__filter_weights(const struct stk_filter *f)
{
	int64_t n = 0;
	for (int t = 0; t < f->n_terms; t++) {
		const struct stk_filter_window *w = f->window[t];
		n += f->dense ? (int64_t)w[1].size * w[2].size : (int64_t)w[1].size + w[2].size;
	}
	return n;
}

/* Returns the tiling of a filter, or STK_FILTER_NO_TILES. */
STK_HD int stk__filter_tiling(const struct stk_filter *f)
{
	const struct stk_filter_window *w = f->window[0];
	if (f->in[0] != 1 || f->out[0] != 1 || w[0].size != 1 || w[0].first != 0 || f->channels > 32 || (!f->dense && f->last != 1))
		return STK_FILTER_NO_TILES;
	bool sum = f->reduction == STK_FILTER_SUM, wide = false;
	for (int t = 0; t < f->n_terms; t++)
		wide = wide || f->window[t][2].size > 1;
	if (stk__filter_tiles(f).shared > STK_FILTER_TILE_SHARED || (sum && stk__filter_weights(f) > STK_FILTER_TILE_WEIGHTS))
		return STK_FILTER_NO_TILES;
	if (!f->dense) /* if all windows of a sum have only one column, there are no weights along the width, which the tiles of sums need */
		return !sum ? STK_FILTER_EXTREME_TILES : wide ? STK_FILTER_SUM_TILES : STK_FILTER_NO_TILES;
	if (f->reduction == STK_FILTER_MEDIAN)
		return w[1].size == w[2].size && (w[1].size == 3 || w[1].size == 5) ? STK_FILTER_MEDIAN_TILES : STK_FILTER_NO_TILES;
	return sum ? STK_FILTER_DENSE_TILES : STK_FILTER_NO_TILES;
}

#endif
