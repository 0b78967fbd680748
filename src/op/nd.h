/* SPDX-License-Identifier: Apache-2.0
 * Windows over tensors of any number of dims, for crop, slice, pad and the decoders. */
#ifndef STK_OP_ND_H
#define STK_OP_ND_H

#include "kernel/common/border.h"
#include "op/dims.h"

/* A window over a tensor: start and extent along each dim of the input. extent -1: not known yet. */
struct stk_window {
	int64_t start[STK_MAX_DIMS], extent[STK_MAX_DIMS];
};

/* The ways to treat a window that reaches outside of the tensor. */
enum stk_bounds { STK_BOUNDS_ERROR, STK_BOUNDS_PAD, STK_BOUNDS_TRIM };

struct stk_bounds_args {
	const char *out_of_bounds_policy;
	struct stk_floats fill_values;
};
extern const struct stk_arg_def stk__bounds_group[];

enum stk_bounds stk__bounds(const struct stk_bounds_args *a);

/* Returns the window that keeps everything. */
struct stk_window stk__window_full(const struct stk_desc *desc);

/* Applies the policy to a window that reaches outside of a tensor of `desc`: fails and names the dim, leaves the window as it is, or trims it. Unknown extents
 * are not checked. */
enum stk_status stk__window_bound(struct stk_window *w, const struct stk_desc *desc, enum stk_bounds bounds, struct stk_error *err);

/* Returns whether the window lies inside the tensor. */
bool stk__window_inside(const struct stk_window *w, const struct stk_desc *desc);

/* Adds the window to a pass over an image of `desc`, with fill (one value, or one a channel) for the part outside. */
void stk__window_lower(const struct stk_window *w, const struct stk_desc *desc, struct stk_floats fill, struct stk_pass *pass);

/* Like stk__window_lower, with a fill value for each channel of the pass. */
void stk__window_fill(const struct stk_window *w, const struct stk_desc *desc, const float *fill, struct stk_pass *pass);

/* Returns STK_INVALID unless there is one fill value, or one for each channel of `out`. Any number passes while the number of channels is not known. */
enum stk_status stk__check_fill(struct stk_floats fill, const struct stk_desc *out, struct stk_error *err);

/* Returns the classes of an operator that keeps a window, with a conversion to `dtype` (-1: none), or STK_CLASS_NEVER if a pass cannot convert. */
unsigned stk__window_classes(bool fills, const struct stk_desc *in, int32_t dtype);

/* Makes the jobs that copy the window of in[0] to out[0] and convert it to out[0]'s type; for lower_jobs, and tensors of any kind. fill: one value, or one for
 * each channel. */
enum stk_status stk__window_copy(
	const struct stk_call *call, const struct stk_window *w, struct stk_floats fill, struct stk_jobs *jobs, struct stk_error *err);

/* Like stk__window_copy, but continues the tensor outside by `border`, which must not be STK_BORDER_FILL. Makes one copy for each part of the window that
 * lies in one repetition of the tensor. STK_SHAPE: the tensor is empty and the window is not. STK_LIMIT: the window is too far outside. */
enum stk_status stk__window_continue(
	const struct stk_call *call, const struct stk_window *w, enum stk_border border, struct stk_jobs *jobs, struct stk_error *err);

/* For gather: fails if the samples' inputs 0 differ in their number of dims, or in the extent of one of `dims` (one bit each). The message names the first
 * sample that differs from the first one. */
enum stk_status stk__gather_same(const struct stk_call *calls, int32_t count, uint32_t dims, struct stk_error *err);

#endif
