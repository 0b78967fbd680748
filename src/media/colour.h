/* SPDX-License-Identifier: Apache-2.0
 * Finds how a stream's colours are converted to RGB. Streams name their conversion matrix by its number in H.273. */
#ifndef STK_MEDIA_COLOUR_H
#define STK_MEDIA_COLOUR_H

#include "media/convert.h"

/* Computes the integers of a conversion matrix. matrix: number in H.273; if the stream does not state one, BT.601 is used, as in FFmpeg's own conversion.
 * full: as for stk__yuv_matrix. Returns false for colours that Stoker does not convert. */
bool stk__colour_matrix(int matrix, int bits, bool full, struct stk_yuv_matrix *out);

/* Read the matrix's number and the range from the header of a key frame of VP8 or VP9, since NVIDIA's parser does not report them. Return false if the
 * packet is not a key frame in YUV, or if its header is damaged. */
bool stk__colour_of_vp8(const uint8_t *packet, size_t size, int *matrix, bool *full);
bool stk__colour_of_vp9(const uint8_t *packet, size_t size, int *matrix, bool *full);

#endif
