/* SPDX-License-Identifier: Apache-2.0
 * The random window of random_resized_crop and decoders.image_random_crop (Szegedy et al., "Going deeper with convolutions", 2014: an area and an
 * aspect ratio drawn within bounds). */
#ifndef STK_OP_RANDOM_CROP_ARGS_H
#define STK_OP_RANDOM_CROP_ARGS_H

#include "op/op.h"

struct stk_random_crop_args {
	struct stk_floats random_area, random_aspect_ratio;
	int64_t num_attempts, seed;
};
extern const struct stk_arg_def stk__random_crop_group[];

/* Fails unless random_area and random_aspect_ratio have two values each, the lower one first. A table of arguments cannot express this. may_be_empty: the
 * smallest area may be 0. */
enum stk_status stk__random_crop_check(const struct stk_random_crop_args *a, bool may_be_empty, struct stk_error *err);

/* Draws a window inside an image of w x h pixels (both > 0). Each attempt takes the stream's next two draws; the anchor takes the two draws after the last
 * attempt. If no attempt could succeed, no attempt is made. The same stream and extents give the same window on every machine. */
struct stk_rect stk__random_crop(const struct stk_random_crop_args *a, struct stk_random *r, int32_t w, int32_t h);

/* As stk__random_crop, but draws the windows of torchvision's RandomErasing: smaller than the image along both axes, and possibly of 0 pixels. Only the drawn
 * aspect ratio is in the allowed range; that of the whole pixels may be outside of it. If no attempt succeeds, the window is empty, at 0, 0. */
struct stk_rect stk__random_smaller_crop(const struct stk_random_crop_args *a, struct stk_random *r, int32_t w, int32_t h);

#endif
