/* SPDX-License-Identifier: Apache-2.0
 * Arguments of the operators that resample: which filters they use, and how the output's extents and the region of interest are computed. */
#ifndef STK_OP_RESIZE_ARGS_H
#define STK_OP_RESIZE_ARGS_H

#include "op/dims.h"

/* Arguments that choose the filters and the output's type. */
struct stk_filter_args {
	int32_t interp_type, mag_filter, min_filter;
	bool antialias;
	const char *border;
	int32_t dtype;
};
extern const struct stk_arg_def stk__filter_group[];

/* Fills filters and dtype of a resize over an image of type `in`; STK_UNSUPPORTED if dtype is neither that type nor float32. */
enum stk_status stk__filter_of_args(const struct stk_filter_args *a, enum stk_dtype in, struct stk_resize *out, struct stk_error *err);

/* Arguments for the output's extents and for the region of the input that is resized. */
struct stk_extent_args {
	float resize_x, resize_y, resize_z, resize_shorter, resize_longer;
	struct stk_floats size, max_size, roi_start, roi_end;
	bool roi_relative, subpixel_scale;
	const char *mode, *rounding;
};
extern const struct stk_arg_def stk__extent_group[];
/* The arguments of stk__extent_group without `rounding`, whose field is then NULL, for operators that have the `rounding` of stk__window_group. */
extern const struct stk_arg_def stk__extent_core_group[];

/* Extents of one to STK_MAX_DIMS dims, in the order of `size`, the outermost first. */
struct stk_extents {
	int32_t n;
	int64_t in[STK_MAX_DIMS]; /* -1: not known yet */
	char rounding;            /* rounding of a fractional extent: 'r' to nearest, 't' down, 'c' up */
	/* one value for each dim. scales NULL: the arguments give sizes. alignment NULL: the region changes about its centre */
	const float *scales, *alignment;
	int32_t out[STK_MAX_DIMS];                    /* extents of the output; -1: not known yet */
	float begin[STK_MAX_DIMS], end[STK_MAX_DIMS]; /* the region that becomes the output; begin > end: mirrored */
};

/* Sets x->out, x->begin and x->end as far as they are known. region_open: the region's arguments have a value for each sample, which is not known yet. */
enum stk_status stk__extents_of_args(const struct stk_extent_args *a, bool region_open, struct stk_extents *x, struct stk_error *err);

/* Returns whether an argument that determines the extents varies from sample to sample. a: must be part of call->args. */
bool stk__extents_open(const struct stk_call *call, const struct stk_extent_args *a);

/* Fills out_w, out_h and the region of `out` for an image of w x h pixels (-1: not known yet). Fills the extents that are known even then, and sets the
 * others to -1. a: must be part of call->args. */
enum stk_status stk__extent_of_args(
	const struct stk_call *call, const struct stk_extent_args *a, int64_t w, int64_t h, struct stk_resize *out, struct stk_error *err);

#endif
