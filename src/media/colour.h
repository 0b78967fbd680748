/* SPDX-License-Identifier: Apache-2.0
 * The colours of a stream, by the numbers of H.273 that its headers name. */
#ifndef STK_MEDIA_COLOUR_H
#define STK_MEDIA_COLOUR_H

#include "media/convert.h"

/* Finds the integers of a matrix. matrix: its number in H.273. A stream that names none is taken as BT.601, as FFmpeg's own conversion does. Returns false for
 * colours that Stoker does not convert. */
bool stk__colour_matrix(int matrix, int bits, bool full, struct stk_yuv_matrix *out);

/* Reads the colours in the header of a key frame of VP8 or VP9, which NVIDIA's parser does not report. *matrix: as above. Returns false if it is not the header
 * of a key frame in YUV, or is damaged. */
bool stk__colour_of_vp8(const uint8_t *packet, size_t size, int *matrix, bool *full);
bool stk__colour_of_vp9(const uint8_t *packet, size_t size, int *matrix, bool *full);

#endif
