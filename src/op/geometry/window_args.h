/* SPDX-License-Identifier: Apache-2.0
 * The arguments by which crop, crop_mirror_normalize and decoders.image_crop say which window to keep. */
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

/* The dim that a window's depth is of: D, or in a sequence without it the frames; -1: none. */
int32_t stk__window_depth(const struct stk_desc *desc);

/* The window over a tensor of `desc`, whose layout has H and W. Depth is of stk__window_depth, and left out where there is none. Other dims are kept whole. */
enum stk_status stk__window_of_args(
	const struct stk_window_args *a, const struct stk_desc *desc, struct stk_window *out, struct stk_error *err);

/* STK_UNSUPPORTED where the window reaches outside of dim d: a pass takes whole frames from the first one of the window on, and adds none. */
enum stk_status stk__window_within(const struct stk_window *w, const struct stk_desc *desc, int32_t d, struct stk_error *err);

#endif
