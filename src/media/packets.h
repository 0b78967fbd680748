/* SPDX-License-Identifier: Apache-2.0
 *
 * The packets of one stream of a media file, in the order of the file, which is the order of decoding. For each packet the list has the time of presentation
 * and the offset of its bytes in the file, so the demuxer is no longer needed: packets are read by their byte ranges. */
#ifndef STK_MEDIA_PACKETS_H
#define STK_MEDIA_PACKETS_H

#include "media/container.h"

#define STK_NO_TIME INT64_MIN
#define STK_MOST_TIME ((int64_t)1 << 61) /* the largest time of a packet, in time bases; -STK_MOST_TIME is the smallest */

enum stk_packet_flags {
	STK_PACKET_KEY = 1,     /* decoding can begin at this packet */
	STK_PACKET_DROPPED = 2, /* to be decoded but not presented: the edit list leaves the picture out, or the codec hides it */
	STK_PACKET_KEPT = 4,    /* the bytes are not contiguous in the file; `kept` has a copy of them, at offset `position` */
	STK_PACKET_DAMAGED = 8, /* this packet or one next to it is incomplete: the demuxer says so, or the file is cut after it */
};

struct stk_packet {
	int64_t pts;      /* time of presentation, in time bases */
	int64_t duration; /* in time bases */
	int64_t position; /* offset of the packet's bytes in the file, or in `kept` */
	int32_t size;     /* size in bytes */
	int32_t flags;    /* enum stk_packet_flags */
};

struct stk_packets {
	struct stk_packet *v;
	int32_t count, capacity;
	int32_t tb_num, tb_den; /* a time base is tb_num / tb_den seconds */
	uint8_t *kept;
	size_t kept_size, kept_capacity;
	/* number of packets that a decoder must hold back to return pictures in order: the maximum number of packets that precede a packet in the file and are
	 * presented after it, but at most 16 */
	int32_t reorder;
};

/* Lists the packets of `stream`, the container's chosen stream. After a failure, `out` need not be freed. */
STK_MUST_USE enum stk_status stk__packets_read(struct stk_container *c, const struct stk_ffmpeg *f, const struct stk_media_input *in,
	const AVStream *stream, struct stk_packets *out, struct stk_error *err);
void stk__packets_free(struct stk_packets *p);

/* Returns the number of packets after which a decoder has surely returned the picture of an earlier one. */
static inline int32_t stk__packets_delay(const struct stk_packets *p)
{
	return 2 * p->reorder + 2;
}

/* Returns STK_UNSUPPORTED if the packet holds two frames of MPEG-4: encoders of AVI files pack a frame that refers to a later one into the later one's packet.
 * The frames then have one time and one number, so numbers would not say which frame is wanted. Call it where a packet's bytes are read first. */
STK_MUST_USE enum stk_status stk__packet_check(enum AVCodecID codec, const uint8_t *data, size_t size, struct stk_error *err);

/* Reads the bytes of the packet with index `packet`. `to` must have space for AV_INPUT_BUFFER_PADDING_SIZE bytes more than the packet, which are set to 0. */
STK_MUST_USE enum stk_status stk__packet_read(
	const struct stk_packets *p, const struct stk_media_input *in, int32_t packet, uint8_t *to, struct stk_error *err);

#endif
