/* SPDX-License-Identifier: Apache-2.0
 * The arguments of slice and decoders.image_slice that define the window to keep. */
#ifndef STK_OP_SLICE_ARGS_H
#define STK_OP_SLICE_ARGS_H

#include "op/nd.h"

struct stk_slice_args {
	struct stk_ints start, end, shape, axes;
	struct stk_floats rel_start, rel_end, rel_shape;
	const char *axis_names;
	bool normalized_anchor, normalized_shape;
};
extern const struct stk_arg_def stk__slice_group[];

/* Computes the window in a tensor of `desc`. If the operator has inputs 1 and 2, they are the window's anchor and shape. */
enum stk_status stk__window_of_slice(const struct stk_slice_args *a, const struct stk_call *call, const struct stk_desc *desc,
	struct stk_window *out, struct stk_error *err);

/* Finds the dims to which the bounds apply: all if the list of axes is empty, W and H if none is given. Returns their number, or minus the status. */
int32_t stk__slice_axes(const struct stk_slice_args *a, const struct stk_desc *desc, int32_t axes[STK_MAX_DIMS], struct stk_error *err);

/* Sets out[] to the dims that axes or axis_names list; fails if both are given. Returns their number (0 if neither is given), or minus the status on
 * failure. */
int32_t stk__axes_of(
	struct stk_ints axes, const char *axis_names, const struct stk_desc *desc, int32_t out[STK_MAX_DIMS], struct stk_error *err);

#endif
