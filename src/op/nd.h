/* SPDX-License-Identifier: Apache-2.0
 * Windows over tensors of any number of dims, for crop, slice, pad and the decoders. */
#ifndef STK_OP_ND_H
#define STK_OP_ND_H

#include "kernel/common/border.h"
#include "op/dims.h"

/* A window in a tensor: start and extent along each dim of the tensor. extent -1: not known yet. */
struct stk_window {
	int64_t start[STK_MAX_DIMS], extent[STK_MAX_DIMS];
};

/* What stk__window_bound does if a window reaches outside of the tensor. ERROR: it fails. PAD: it keeps the window, so that the operator fills in values.
 * TRIM: it cuts the window at the tensor's bounds. NO_POLICY: it fails, as for an operator that has no argument out_of_bounds_policy. */
enum stk_bounds { STK_BOUNDS_ERROR, STK_BOUNDS_PAD, STK_BOUNDS_TRIM, STK_BOUNDS_NO_POLICY };

struct stk_bounds_args {
	const char *out_of_bounds_policy;
	struct stk_floats fill_values;
};
extern const struct stk_arg_def stk__bounds_group[];

enum stk_bounds stk__bounds(const struct stk_bounds_args *a);

/* Returns the window that contains the whole tensor. */
struct stk_window stk__window_full(const struct stk_desc *desc);

/* Applies `bounds` to a window in a tensor of `desc`. If it fails, the message names the dim along which the window reaches outside. Dims whose
 * extents are not known are not checked. */
enum stk_status stk__window_bound(struct stk_window *w, const struct stk_desc *desc, enum stk_bounds bounds, struct stk_error *err);

/* Returns whether the window lies inside the tensor. */
bool stk__window_inside(const struct stk_window *w, const struct stk_desc *desc);

/* Adds the window to a pass over an image of `desc`. fill: the value of positions outside of the image: one value, or one for each channel. */
void stk__window_lower(const struct stk_window *w, const struct stk_desc *desc, struct stk_floats fill, struct stk_pass *pass);

/* Does the same as stk__window_lower, but takes `fill` as an array that has one value for each channel of the pass. */
void stk__window_fill(const struct stk_window *w, const struct stk_desc *desc, const float *fill, struct stk_pass *pass);

/* Returns STK_INVALID unless there is at most one fill value, or one for each channel of `out`. If the number of channels is not known, accepts any. */
enum stk_status stk__check_fill(struct stk_floats fill, const struct stk_desc *out, struct stk_error *err);

/* Returns the classes of an operator that crops to a window and converts to `dtype` (-1: does not convert), or STK_CLASS_NEVER if a pass cannot convert. fills:
 * true if the window may reach outside of the image. */
unsigned stk__window_classes(bool fills, const struct stk_desc *in, int32_t dtype);

/* Makes the jobs that copy the window of in[0] to out[0] and convert it to the type of out[0]. fill: one value, or one for each channel. */
enum stk_status stk__window_copy(
	const struct stk_call *call, const struct stk_window *w, struct stk_floats fill, struct stk_jobs *jobs, struct stk_error *err);

/* Does the same as stk__window_copy, but positions outside of the tensor get the values of elements inside, which `border` selects; STK_BORDER_FILL is not
 * allowed. The window is divided where the step between source elements changes, such as at mirrors, and each part becomes one copy job. STK_SHAPE: the
 * tensor is empty and the window is not. STK_LIMIT: a position or an extent is too large. */
enum stk_status stk__window_continue(
	const struct stk_call *call, const struct stk_window *w, enum stk_border border, struct stk_jobs *jobs, struct stk_error *err);

/* Fails if input 0 of the samples differs in its number of dims, or in its extent along a dim d for which bit d of `dims` is set. The message names the
 * first sample that differs from the first sample of the batch. For an operator's gather function. */
enum stk_status stk__gather_same(const struct stk_call *calls, int32_t count, uint32_t dims, struct stk_error *err);

#endif
