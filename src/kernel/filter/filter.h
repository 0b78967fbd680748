/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters: each output is made of the values in a window about its place in the input: a weighted sum, the least, the largest or the middle one.
 *
 * An image is seen as `outer` volumes of depth x height x width places with `channels` values each, dense and in this order, so that one description
 * serves all layouts: channels that come before the height, and frames, count as outer dims, and an image has a depth of 1.
 *
 * Windows are of two kinds. A dense one has a weight for each of its places, and is run at once. A separable one is run axis by axis, from the
 * innermost to the outermost, with float32 between them: its cost grows with the sum of its extents, not with their product. A Laplacian is a sum of
 * several such windows, one for each derivative; up to the last axis each of these terms has values of its own, and the last axis adds them all up.
 *
 * Values are float32 throughout, and rounded once, when they are stored. Sums are made in one order, term by term, and the places of a window from the first
 * on; each product is rounded. So the CPU, whose loops run over rows (filter_run.c), and the GPU, which makes images in columns of words (filter_words.h) or tile by tile
 * (filter_tile.h), and the rest value by value (filter_element.h), give the same bits.
 *
 * They are jobs (kernel/job/job.h), not steps of passes: a pass hands each pixel on while it is in a register or a row, and a step that
 * reads a window would delay all later steps by as many rows as the window is high. A second such step would add its own delay. */
#ifndef STK_KERNEL_FILTER_FILTER_H
#define STK_KERNEL_FILTER_FILTER_H

#include "base/error.h"
#include "kernel/common/border.h"
#include "kernel/job/job.h"
#include "stoker/tensor.h"

enum stk_filter_reduction { STK_FILTER_SUM, STK_FILTER_LEAST, STK_FILTER_LARGEST, STK_FILTER_MEDIAN };

enum { STK_FILTER_AXES = 3, STK_FILTER_TERMS = 3, STK_FILTER_PHASES = 3 };
enum { STK_FILTER_MOST_MEDIAN = 31 * 31 }; /* places of a median's window */

/* Along one axis: an output at p reads inputs p + first .. p + first + size - 1. */
struct stk_filter_window {
	int32_t size, first;
	int32_t weights; /* of a sum of a separable filter: the index of its first weight */
};

/* Plain data. Axes are depth, height, width. */
struct stk_filter {
	uint8_t reduction, border; /* enum stk_border */
	uint8_t dense;             /* else separable, and then in and out are of the same extents */
	uint8_t last; /* of a separable one: the axis that is run last, 0 or 1. Along others a window of size 1 has the weight 1 */
	int32_t n_terms;
	int32_t in[STK_FILTER_AXES], out[STK_FILTER_AXES];
	int32_t channels;
	int64_t outer;
	float fill;          /* outside, of STK_BORDER_FILL. (Weighted sums over separable windows have other borders.) */
	const void *fill_at; /* an element of the input's type to use instead; NULL: none. Valid on the side that runs the filter */
	struct stk_filter_window window[STK_FILTER_TERMS][STK_FILTER_AXES];
};

/* Its tensors. `weights` of a dense filter lie in the order of its places; those that are not sums have none. work: stk__filter_work bytes (filter_element.h). */
struct stk_filter_data {
	const uint8_t *src;
	uint8_t *dst;
	const float *weights;
	float *work;
	int32_t src_dtype, dst_dtype, src_size, dst_size; /* sizes in bytes */
};

/* Values of one volume. */
STK_HD int64_t stk__filter_volume(const struct stk_filter *f, const int32_t extents[STK_FILTER_AXES])
{
	return (int64_t)extents[0] * extents[1] * extents[2] * f->channels;
}

/* ---- as jobs ---- */

STK_PARAMS_FIT(stk_filter);

/* f: all of it, but that `outer` is 0 where in has no elements. weights: n_weights of a separable filter; NULL: in[1] holds those of a dense sum. */
STK_MUST_USE enum stk_status stk__job_filter(struct stk_jobs *jobs, const struct stk_filter *f, const float *weights, int32_t n_weights,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
