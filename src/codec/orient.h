/* SPDX-License-Identifier: Apache-2.0
 * EXIF's orientations 1..8: what must be done to the stored image to show it. 1: nothing, 2: swap left and right, 3: rotate by 180 degrees, 4: swap top and
 * bottom, 5: mirror about the main diagonal, 6: rotate by 90 degrees clockwise, 7: mirror about the other diagonal, 8: rotate by 90 degrees
 * counter-clockwise. */
#ifndef STK_CODEC_ORIENT_H
#define STK_CODEC_ORIENT_H

#include "tensor/image.h"

/* Returns whether the orientation exchanges rows and columns. */
bool stk__orient_swaps(int orientation);

/* Converts a window from oriented pixels to pixels as stored in the file. width, height: extents of the image as stored. */
struct stk_rect stk__orient_rect(int orientation, int32_t width, int32_t height, struct stk_rect window);

/* Turns *image, a view of the pixels of `window` as stored, into a view of the same pixels in their orientation. Changes only its address and strides.
 * Returns the window in oriented pixels. */
struct stk_rect stk__orient_view(int orientation, int32_t width, int32_t height, struct stk_rect window, struct stk_image *image);

/* Copies src (as stored) to dst (oriented). Both are interleaved and have the same type; dst has the extents of src after the orientation. */
void stk__orient_copy(int orientation, const struct stk_image *src, const struct stk_image *dst);

#endif
