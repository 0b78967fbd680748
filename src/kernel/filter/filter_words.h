/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sums over dense windows, and extremes (minima and maxima), of RGB bytes on the GPU without shared memory. A thread reads the rows of the input as
 * words and makes a column of outputs that is four bytes wide. It keeps the sums, or the extremes of rows, in registers while the window slides down. The bits
 * equal those of filter_element.h. Other windows, types and numbers of channels use tiles (filter_tile.h) or single values. */
#ifndef STK_KERNEL_FILTER_WORDS_H
#define STK_KERNEL_FILTER_WORDS_H

#include "base/hd.h"
#include "kernel/filter/filter.h"

enum {
	STK_FILTER_WORDS_ROWS = 32,   /* number of outputs that a thread makes in a column */
	STK_FILTER_WORDS_WEIGHTS = 56 /* space for the weights of 7 rows, each of which begins at a multiple of 8 */
};

/* Returns true if the fill value never affects the result of a minimum or maximum. This is so if windows contain the output's own position, and the fill is at
 * least 255 for a minimum, at most 0 for a maximum. The outermost pixels can then be used instead of the fill, since a window that exceeds the image contains
 * some of them too. */
STK_HD bool stk__filter_keeps_fill_out(const struct stk_filter *f)
{
	const struct stk_filter_window *w = f->window[0];
	bool own = w[1].first <= 0 && w[1].first + w[1].size > 0 && w[2].first <= 0 && w[2].first + w[2].size > 0;
	return own && !f->fill_at && (f->reduction == STK_FILTER_LEAST ? f->fill >= 255 : f->fill <= 0);
}

/* Returns whether the filter is a minimum or maximum over separable windows, with a border that the kernels for words support. */
STK_HD bool stk__filter_is_extreme(const struct stk_filter *f)
{
	bool extreme = f->reduction == STK_FILTER_LEAST || f->reduction == STK_FILTER_LARGEST;
	return !f->dense && extreme && f->n_terms == 1 && f->last == 1 && (f->border != STK_BORDER_FILL || stk__filter_keeps_fill_out(f));
}

/* Returns whether the kernels for words can run the filter: a sum or extreme of RGB bytes over 3 x 3, 5 x 5 or 7 x 7, with aligned outputs in whole words. */
STK_HD bool stk__filter_takes_words(const struct stk_filter *f, const struct stk_filter_data *d)
{
	const struct stk_filter_window *w = f->window[0];
	bool square = w[1].size == w[2].size && (w[1].size == 3 || w[1].size == 5 || w[1].size == 7);
	bool plane = f->in[0] == 1 && f->out[0] == 1 && w[0].size == 1 && w[0].first == 0;
	bool kind = f->dense ? f->reduction == STK_FILTER_SUM : stk__filter_is_extreme(f);
	return kind && plane && square && f->channels == 3 && d->src_dtype == STK_UINT8 && d->dst_dtype == STK_UINT8 &&
	       f->out[2] % 4 == 0 && (uintptr_t)d->dst % 4 == 0;
}

/* Return the number of words in a row of outputs, and the number of strips of rows. Each thread makes one word in each row of a strip. */
STK_HD uint32_t stk__filter_words_across(const struct stk_filter *f)
{
	return (uint32_t)f->out[2] / 4 * 3;
}

STK_HD uint32_t stk__filter_words_strips(const struct stk_filter *f)
{
	return ((uint32_t)f->out[1] + STK_FILTER_WORDS_ROWS - 1) / STK_FILTER_WORDS_ROWS;
}

#endif
