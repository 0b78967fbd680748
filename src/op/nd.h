/* SPDX-License-Identifier: Apache-2.0
 * Windows over tensors of any number of dims, as crop, slice, pad and the decoders cut them. */
#ifndef STK_OP_ND_H
#define STK_OP_ND_H

#include "kernel/common/border.h"
#include "op/dims.h"

/* Per dim of the input. extent -1: not known yet. */
struct stk_window {
	int64_t start[STK_MAX_DIMS], extent[STK_MAX_DIMS];
};

/* What happens to a window that reaches outside. */
enum stk_bounds { STK_BOUNDS_ERROR, STK_BOUNDS_PAD, STK_BOUNDS_TRIM };

struct stk_bounds_args {
	const char *out_of_bounds_policy;
	struct stk_floats fill_values;
};
extern const struct stk_arg_def stk__bounds_group[];

enum stk_bounds stk__bounds(const struct stk_bounds_args *a);

/* The window of everything. */
struct stk_window stk__window_full(const struct stk_desc *desc);

/* Applies the policy over a tensor of `desc`: an error that names the dim, nothing, or the trimmed window. Unknown extents pass. */
enum stk_status stk__window_bound(struct stk_window *w, const struct stk_desc *desc, enum stk_bounds bounds, struct stk_error *err);

/* True when the window lies inside. */
bool stk__window_inside(const struct stk_window *w, const struct stk_desc *desc);

/* Adds the window to a pass over an image of `desc`, with fill (one value, or one a channel) where it reaches outside. */
void stk__window_lower(const struct stk_window *w, const struct stk_desc *desc, struct stk_floats fill, struct stk_pass *pass);

/* The same with a fill value for each channel of the pass. */
void stk__window_fill(const struct stk_window *w, const struct stk_desc *desc, const float *fill, struct stk_pass *pass);

/* STK_INVALID unless there is one fill value, or one for each channel of out. Any count passes while the channels are not known. */
enum stk_status stk__check_fill(struct stk_floats fill, const struct stk_desc *out, struct stk_error *err);

/* Classes of an operator that keeps a window, with a conversion to `dtype` (-1: none): STK_CLASS_NEVER where a pass cannot convert. */
unsigned stk__window_classes(bool fills, const struct stk_desc *in, int32_t dtype);

/* The same for tensors of any kind: out[0] is the window of in[0], converted to out[0]'s type, with one fill value or one a channel. For lower_jobs. */
enum stk_status stk__window_copy(
	const struct stk_call *call, const struct stk_window *w, struct stk_floats fill, struct stk_jobs *jobs, struct stk_error *err);

/* The same where the tensor goes on outside, by `border`, which is none of STK_BORDER_FILL: a copy for each part of the window that lies in one turn of it. */
enum stk_status stk__window_continue(
	const struct stk_call *call, const struct stk_window *w, enum stk_border border, struct stk_jobs *jobs, struct stk_error *err);

/* For gather: an error that names the sample whose in[0] has another number of dims than the first, or another extent in one of `dims` (a bit
 * each). */
enum stk_status stk__gather_same(const struct stk_call *calls, int32_t count, uint32_t dims, struct stk_error *err);

#endif
