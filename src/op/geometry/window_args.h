/* SPDX-License-Identifier: Apache-2.0
 * The arguments of crop, crop_mirror_normalize, resize_crop_mirror and decoders.image_crop that define the window to keep. */
#ifndef STK_OP_WINDOW_ARGS_H
#define STK_OP_WINDOW_ARGS_H

#include "op/nd.h"

struct stk_window_args {
	struct stk_floats crop;
	float crop_d, crop_h, crop_w;
	float crop_pos_x, crop_pos_y, crop_pos_z;
	const char *rounding;
};
extern const struct stk_arg_def stk__window_group[];

/* Returns the dim to which a window's depth applies: D, or the frames in a sequence without D; -1: none. */
int32_t stk__window_depth(const struct stk_desc *desc);

/* Computes the window in a tensor of `desc`, whose layout has H and W. The arguments for depth apply to the dim that stk__window_depth returns, and are ignored
 * if there is no such dim. In other dims the window has the tensor's extent. */
enum stk_status stk__window_of_args(
	const struct stk_window_args *a, const struct stk_desc *desc, struct stk_window *out, struct stk_error *err);

/* Returns STK_UNSUPPORTED if the window reaches beyond the tensor along dim d, which holds the frames or the depth. A pass can fill in pixels around an
 * image, but not add frames or depth. If d is -1, there is nothing to check. */
enum stk_status stk__window_within(const struct stk_window *w, const struct stk_desc *desc, int32_t d, struct stk_error *err);

#endif
