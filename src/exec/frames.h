/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes a tensor that contains images as equal images at a fixed distance, its frames: all dims before those of an image count frames. */
#ifndef STK_EXEC_FRAMES_H
#define STK_EXEC_FRAMES_H

#include "tensor/image.h"

struct stk_frames {
	struct stk_image image; /* the first frame */
	int32_t count;
	ptrdiff_t stride; /* distance from one frame to the next in bytes */
};

/* Returns false if an extent, or the number of frames, is larger than passes support. The tensor must have a layout of images, or "". */
bool stk__frames_fit(const struct stk_desc *desc);

/* Returns a view of the tensor. Its layout must be one of images, or "", which stands for HW, HWC, FHWC or FDHWC, by the number of dims. Its data may be at
 * a device address. */
struct stk_frames stk__frames_of(const struct stk_tensor *t);

bool stk__is_planar(const struct stk_image *i);

/* Returns a view of `channels` channels of the frames, from channel `plane` on. */
struct stk_frames stk__frames_plane(const struct stk_frames *f, int32_t plane, int32_t channels);

#endif
