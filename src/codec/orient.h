/* SPDX-License-Identifier: Apache-2.0
 * EXIF's orientations 1..8: 1 as stored, 2 mirrored, 3 half a turn, 4 upside down, 5 transposed, 6 a quarter turn clockwise, 7 transposed about the
 * other diagonal, 8 a quarter turn counter-clockwise. */
#ifndef STK_CODEC_ORIENT_H
#define STK_CODEC_ORIENT_H

#include "tensor/image.h"

/* Returns whether the orientation turns rows into columns. */
bool stk__orient_swaps(int orientation);

/* Returns the stored pixels of a window that is given in oriented pixels. width, height: as stored. */
struct stk_rect stk__orient_rect(int orientation, int32_t width, int32_t height, struct stk_rect window);

/* Turns *image, a view of the stored pixels of `window`, into a view of the same pixels oriented, by changing its address and exchanging and negating its
 * strides. Returns the window in oriented pixels. */
struct stk_rect stk__orient_view(int orientation, int32_t width, int32_t height, struct stk_rect window, struct stk_image *image);

/* Copies src (as stored) to dst (oriented). Both are interleaved and of one type; extents must fit. */
void stk__orient_copy(int orientation, const struct stk_image *src, const struct stk_image *dst);

#endif
