/* SPDX-License-Identifier: Apache-2.0
 * Arguments of the operators that resample: filters, and how extents and region of interest follow from what is given. */
#ifndef STK_OP_RESIZE_ARGS_H
#define STK_OP_RESIZE_ARGS_H

#include "op/dims.h"

/* Filters and the output's type. */
struct stk_filter_args {
	int32_t interp_type, mag_filter, min_filter;
	bool antialias;
	const char *border;
	int32_t dtype;
};
extern const struct stk_arg_def stk__filter_group[];

/* Fills filters and dtype of a resize over an image of type `in`; STK_UNSUPPORTED when dtype is neither that nor float32. */
enum stk_status stk__filter_of_args(const struct stk_filter_args *a, enum stk_dtype in, struct stk_resize *out, struct stk_error *err);

/* Extents and region. */
struct stk_extent_args {
	float resize_x, resize_y, resize_z, resize_shorter, resize_longer;
	struct stk_floats size, max_size, roi_start, roi_end;
	bool roi_relative, subpixel_scale;
	const char *mode, *rounding;
};
extern const struct stk_arg_def stk__extent_group[];
extern const struct stk_arg_def stk__extent_core_group[]; /* without rounding, a name that crop has too: it is then NULL */

/* a: part of call->args. out_w, out_h and the region of `out` for an image of w x h pixels, -1 where not known yet: the extents that follow all the same are filled, the
 * others are -1. */
enum stk_status stk__extent_of_args(
	const struct stk_call *call, const struct stk_extent_args *a, int64_t w, int64_t h, struct stk_resize *out, struct stk_error *err);

#endif
