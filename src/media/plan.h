/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes which packets must be decoded to get the wanted frames. Pure functions. */
#ifndef STK_MEDIA_PLAN_H
#define STK_MEDIA_PLAN_H

#include "stoker/status.h"

#include <stdint.h>

/* The data about a stream that planning needs. Packets are in the order of decoding, frames in the order of presentation. */
struct stk_frame_table {
	const int32_t *packet_of; /* [frame]: index of the frame's packet */
	const int64_t *times;     /* [packet]: time of presentation */
	const int32_t *keys;      /* indices of the packets at which decoding can begin, in ascending order */
	int32_t frames, key_count;
};

/* A range of packets that is decoded without a break, from a key packet to the last packet that a wanted frame needs. */
struct stk_segment {
	int32_t first, last;      /* indices of the first and the last packet */
	int32_t wanted, n_wanted; /* the segment's wanted frames: index of the first in the list passed to stk__plan; number of frames */
};

/* Returns the index of a number in an ascending list, or -1 if the list does not contain it. */
int32_t stk__index_of_number(const int32_t *numbers, int32_t count, int64_t number);

/* Returns the index in `keys` of the key packet from which a frame must be decoded: the last one that precedes the frame (or is the frame) both in the file and
 * in presentation. Frames that follow a key packet in the file but are presented before it may refer to frames before that packet (open groups of pictures).
 * Returns -1 if there is no such key packet. */
int32_t stk__plan_key(const struct stk_frame_table *t, int32_t frame);

/* Divides the wanted frames, which are ascending, into segments. out: memory for `count` segments. Returns the number of segments. A packet is decoded twice
 * only if frames of two parts of the file alternate in presentation. */
int32_t stk__plan(const struct stk_frame_table *t, const int32_t *wanted, int32_t count, struct stk_segment *out);

#endif
