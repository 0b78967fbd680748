/* SPDX-License-Identifier: Apache-2.0
 * Image tensors as images: leading dims are frames. */
#ifndef STK_EXEC_FRAMES_H
#define STK_EXEC_FRAMES_H

#include "tensor/image.h"

struct stk_frames {
	struct stk_image image; /* of the first frame */
	int32_t count;
	ptrdiff_t stride;
};

/* False where an extent, or the number of frames, is more than passes can count. The tensor's layout is one of images, or none. */
bool stk__frames_fit(const struct stk_desc *desc);

/* The tensor's layout is one of images, or none. Its data may be an address of a GPU. */
struct stk_frames stk__frames_of(const struct stk_tensor *t);

bool stk__is_planar(const struct stk_image *i);

/* From channel `plane` on, `channels` of them. */
struct stk_frames stk__frames_plane(const struct stk_frames *f, int32_t plane, int32_t channels);

#endif
