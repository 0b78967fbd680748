/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_MEDIA_START_H
#define STK_MEDIA_START_H

#include "media/annex_b.h"
#include "media/ffmpeg.h"

/* Returns whether decoding can begin at a packet, by its first picture. Containers mark such packets, but some mark others too: in MP4 files without a list of
 * key packets (stss), all are marked. Most decoders would begin at any of them, and return wrong pictures without an error. Returns true for H.264, whose
 * decoder returns nothing before a picture at which it can begin, for other codecs that are not examined, and for packets that are not understood.
 * units: the packets' format; used only for HEVC. */
bool stk__packet_begins(enum AVCodecID codec, const struct stk_annex_b *units, const uint8_t *data, size_t size);

#endif
