/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the size of pictures from the sequence parameter sets (SPS) of H.264 and HEVC. Decoders follow these, and not the size that a container states. */
#ifndef STK_MEDIA_CODED_SIZE_H
#define STK_MEDIA_CODED_SIZE_H

#include "media/annex_b.h"

/* Replaces *width and *height, the size that the container states or 0, by the size of the pictures that FFmpeg's decoder gives. Keeps them if the header has
 * no set, a damaged one, or sets of several sizes. header: of the stream, as for stk__annex_b_create. */
void stk__coded_size(enum stk_unit_codec codec, const uint8_t *header, size_t size, int32_t *width, int32_t *height);

#endif
