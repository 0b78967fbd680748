/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters: each output is computed from the input values in a window around its position: a weighted sum, the minimum, the maximum or the median.
 *
 * The input consists of `outer` volumes of depth x height x width positions with `channels` values each, dense and in this order. All layouts can be
 * described in this way: frames, and channels that come before the height, are counted in `outer`, and a two-dimensional image has a depth of 1.
 *
 * There are two kinds of windows. A dense window has a weight for each of its positions, and is applied at once. A separable window is applied axis by
 * axis, from the innermost to the outermost, with float32 values in between; its cost grows with the sum of its extents, not with their product. A
 * Laplacian is a sum of several separable windows (terms), one for each derivative. Each term has its own intermediate values. The terms are added up when
 * the window is applied along the last axis.
 *
 * All values are float32, and are converted to the output's type when they are stored. Sums are computed in one fixed order, term by term and from the
 * first position of a window on, and each product is rounded before it is added (no fused multiply-add). So all implementations give the same bits: the
 * CPU's loops over rows (filter_run.c), and on the GPU columns of words (filter_words.h), tiles (filter_tile.h), and single values for everything else
 * (filter_element.h).
 *
 * Filters are jobs (kernel/job/job.h), not steps of passes. A pass hands each pixel on while it is in a register or a row. A step that reads a window would
 * delay all later steps by the height of the window, and a second such step would add its own delay. */
#ifndef STK_KERNEL_FILTER_FILTER_H
#define STK_KERNEL_FILTER_FILTER_H

#include "base/error.h"
#include "kernel/common/border.h"
#include "kernel/job/job.h"
#include "stoker/tensor.h"

enum stk_filter_reduction { STK_FILTER_SUM, STK_FILTER_LEAST, STK_FILTER_LARGEST, STK_FILTER_MEDIAN };

enum { STK_FILTER_AXES = 3, STK_FILTER_TERMS = 3, STK_FILTER_PHASES = 3 };
enum { STK_FILTER_MOST_MEDIAN = 31 * 31 }; /* maximum number of positions in the window of a median */

/* A window along one axis: an output at p reads inputs p + first .. p + first + size - 1. */
struct stk_filter_window {
	int32_t size, first;
	int32_t weights; /* for sums of separable filters: the index of the window's first weight */
};

/* The parameters. Arrays over axes are in the order depth, height, width. */
struct stk_filter {
	uint8_t reduction, border; /* enum stk_border */
	uint8_t dense;             /* the window is dense; otherwise it is separable, and then `in` equals `out` */
	/* for separable filters: the axis that is applied last, 0 or 1. Along axes that a term does not filter, its window has size 1 and weight 1 */
	uint8_t last;
	int32_t n_terms;
	int32_t in[STK_FILTER_AXES], out[STK_FILTER_AXES]; /* extents of a volume of the input and of the output */
	int32_t channels;
	int64_t outer;
	/* the value that is read outside of the image with STK_BORDER_FILL, which is not used for weighted sums over separable windows */
	float fill;
	/* address of an element of the input's type that is used instead of `fill`, in the memory of the CPU or GPU that runs the filter; NULL: use `fill` */
	const void *fill_at;
	struct stk_filter_window window[STK_FILTER_TERMS][STK_FILTER_AXES];
};

/* The memory of a filter. weights: in the order of a dense window's positions, or at the indices in stk_filter_window; NULL if the filter is not a sum.
 * work: on the GPU, stk__filter_work (filter_element.h) bytes for the values between the axes of a separable window. */
struct stk_filter_data {
	const uint8_t *src;
	uint8_t *dst;
	const float *weights;
	float *work;
	int32_t src_dtype, dst_dtype, src_size, dst_size; /* element types, and sizes of elements in bytes */
};

/* Returns the number of values in one volume. */
STK_HD int64_t stk__filter_volume(const struct stk_filter *f, const int32_t extents[STK_FILTER_AXES])
{
	return (int64_t)extents[0] * extents[1] * extents[2] * f->channels;
}

STK_PARAMS_FIT(stk_filter);

/* Makes a filter job, unless `out` has no elements. weights: the n_weights weights of a sum; NULL for other filters, and for a dense sum whose weights are
 * the tensor in[1]. */
STK_MUST_USE enum stk_status stk__job_filter(struct stk_jobs *jobs, const struct stk_filter *f, const float *weights, int32_t n_weights,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
