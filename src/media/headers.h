/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the headers in a packet which libavcodec keeps for later packets, even if its context is flushed. A context can thus be used again for packets with the
 * same headers only. */
#ifndef STK_MEDIA_HEADERS_H
#define STK_MEDIA_HEADERS_H

#include "media/annex_b.h"
#include "media/ffmpeg.h"

/* Sets *hash to a hash of the headers in a packet, or to 0 if it has none. Returns false if it may have headers that this function does not find. units: of H.264
 * and HEVC, the format of packets; NULL if it is unknown. */
bool stk__packet_headers(enum AVCodecID codec, const struct stk_annex_b *units, const uint8_t *data, size_t size, uint64_t *hash);

#endif
