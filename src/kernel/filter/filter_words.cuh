/* SPDX-License-Identifier: Apache-2.0
 * Functions for the kernels that filter RGB bytes in columns of words (filter_words.h): they compute which column a thread makes, and which part of the
 * input its windows cover. */
#ifndef STK_KERNEL_FILTER_WORDS_CUH
#define STK_KERNEL_FILTER_WORDS_CUH

#include "kernel/common/span.cuh"
#include "kernel/filter/filter_words.h"

/* A thread's column of outputs. top, left: the row, and the index in that row, of the first value in the first output's window; may be outside of the input. */
struct column {
	const uint8_t *src;                       /* address of the image's first value */
	uint8_t *dst;                             /* address of the column's first output */
	int32_t left, top, rows, row_in, row_out; /* rows: of outputs; row_in, row_out: values in a row of the input, of the output */
};

/* The extent of the windows of four adjacent outputs, which together read SPAN values of each row of the input. */
template <int SIZE> struct window {
	static constexpr int SPAN = 4 + 3 * (SIZE - 1), WORDS = (SPAN + 3) / 4;
};

/* The SPAN values of one row. */
template <int SIZE> using span = stk_span<window<SIZE>::SPAN>;

/* ---- borders ---- */

/* Returns the border to use. Minima and maxima use the outermost pixels instead of the fill value, which cannot affect their result (filter_words.h). */
static __device__ __forceinline__ int32_t border_of(const stk_filter &f)
{
	return f.reduction != STK_FILTER_SUM && f.border == STK_BORDER_FILL ? STK_BORDER_CLAMP : f.border;
}

static __device__ __noinline__ int32_t row_outside(const stk_filter &f, int32_t y)
{
	return stk__border_index(y, f.in[1], border_of(f));
}

/* Returns the row of the input that is read at y, or a negative number if the fill value is read. height: f.in[1]. */
static __device__ __forceinline__ int32_t row_of(const stk_filter &f, int32_t height, int32_t y)
{
	return (uint32_t)y < (uint32_t)height ? y : row_outside(f, y);
}

/* Returns the index in a row from which value v is read, or a negative number if the fill value is read. v may be outside of the row. */
static __device__ __noinline__ int32_t source_index(const stk_filter &f, int32_t v)
{
	int32_t p = v >= 0 ? v / 3 : -((2 - v) / 3), x = stk__border_index(p, f.in[2], border_of(f));
	return x < 0 ? -1 : 3 * x + v - 3 * p;
}

template <int SIZE>
static __device__ __forceinline__ void find_places(const stk_filter &f, const column &c, int32_t (&at)[window<SIZE>::SPAN])
{
#pragma unroll
	for (int m = 0; m < window<SIZE>::SPAN; m++)
		at[m] = source_index(f, c.left + m);
}

/* Returns whether no window of the column exceeds the left or right end of the input's rows. */
template <int SIZE> static __device__ __forceinline__ bool rows_hold(const column &c)
{
	return c.left >= 0 && c.left + window<SIZE>::SPAN <= c.row_in;
}

/* ---- columns ---- */

/* The word of outputs that a thread makes: the strip of rows, counted over all images, and the index of the word in a row. */
struct block_start {
	uint32_t strip;
	int32_t word;
};

/* Returns the strip and word of thread i. The words at the ends of rows, whose windows exceed the rows, are first, for all strips. So few warps contain such
 * words; if words were in the order of their positions, up to two warps of each row would. */
static __device__ __forceinline__ block_start find_place(const stk_filter &f, uint32_t i)
{
	const stk_filter_window &w = f.window[0][2];
	const int32_t across = (int32_t)stk__filter_words_across(&f), span = 3 * w.size + 1;
	const int32_t begin = min(max((3 - 3 * w.first) / 4, 0), across), room = 3 * (f.in[2] - w.first) - span;
	const int32_t inside = max(min(room >= 0 ? room / 4 + 1 : 0, across) - begin, 0);
	const uint32_t beyond = (uint32_t)(across - inside), first = beyond * stk__filter_words_strips(&f) * f.outer;
	const bool ends = i < first || inside == 0; /* if inside is 0, all words are at the ends */
	const uint32_t of_strip = max(ends ? beyond : (uint32_t)inside, 1u), from = ends ? 0 : first, strip = (i - from) / of_strip;
	const int32_t word = (int32_t)(i - from - strip * of_strip);
	return {strip, ends ? word + (word >= begin ? inside : 0) : begin + word};
}

/* Returns the column of the job's thread i. Sets `exists` to true if the column has outputs. */
static __device__ __forceinline__ column find_column(const stk_filter &f, const stk_filter_data &d, uint32_t i, bool &exists)
{
	const block_start at = find_place(f, i);
	const stk_filter_window *w = f.window[0];
	const uint32_t strips = stk__filter_words_strips(&f), outer = at.strip / strips;
	const int32_t y = (int32_t)(at.strip - outer * strips) * STK_FILTER_WORDS_ROWS, left = 4 * at.word;
	exists = outer < f.outer;
	column c = {d.src + outer * stk__filter_volume(&f, f.in), d.dst + outer * stk__filter_volume(&f, f.out), left + 3 * w[2].first,
		y + w[1].first, min(STK_FILTER_WORDS_ROWS, f.out[1] - y), 3 * f.in[2], 3 * f.out[2]};
	c.dst += (int64_t)y * c.row_out + left;
	return c;
}

#endif
