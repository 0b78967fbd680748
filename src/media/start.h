/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_MEDIA_START_H
#define STK_MEDIA_START_H

#include "media/annex_b.h"
#include "media/index.h"

/* Which pictures can be decoded if decoding begins at a packet. */
enum stk_start {
	STK_START_NONE,    /* not the packet's picture, and maybe no later one either */
	STK_START_PICTURE, /* the packet's picture; later ones may refer to pictures before it */
	STK_START_LATER,   /* pictures some time after it. libavcodec omits those before them; GPUs return them with wrong pixels */
	STK_START_HERE,    /* the packet's picture and all that are presented after it */
};

/* Returns which pictures can be decoded if decoding begins at a packet, by its first picture. Containers mark key packets, but some mark others too: in MP4 files
 * without a list of key packets (stss), all are marked. Most decoders would begin at any of them, and return wrong pictures without an error, or none.
 * Returns STK_START_HERE for codecs that are not examined, and for packets that are not understood. x: the index of the packet's file.
 * units: the packets' format; used only for H.264 and HEVC. */
enum stk_start stk__packet_start(const struct stk_video_index *x, const struct stk_annex_b *units, const uint8_t *data, size_t size);

#endif
