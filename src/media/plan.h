/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans which packets must be decoded for the frames that are wanted. Pure functions. */
#ifndef STK_MEDIA_PLAN_H
#define STK_MEDIA_PLAN_H

#include "stoker/status.h"

#include <stdint.h>

/* The data about a stream that planning needs. Packets are in the order of decoding, frames in that of presentation. */
struct stk_frame_table {
	const int32_t *packet_of; /* packet of each frame */
	const int64_t *times;     /* time of presentation of each packet */
	const int32_t *keys;      /* packets at which decoding can begin, ascending */
	int32_t frames, key_count;
};

/* A range of packets that is decoded in one go, from a key packet to the last that a wanted frame needs. */
struct stk_segment {
	int32_t first, last; /* the first and the last packet */
	int32_t wanted,
		n_wanted; /* the segment's wanted frames: index of the first in the list that was passed to stk__plan, and their number */
};

/* Returns the index of a number in an ascending list; -1: the list does not contain it. */
int32_t stk__place_of(const int32_t *numbers, int32_t count, int64_t number);

/* Returns the number (in `keys`) of the key packet from which a frame is decoded: the last one before it in the order of decoding that is not presented
 * after it. Frames that follow a key packet in the file and precede it in presentation may refer to frames before that packet (open groups of pictures).
 * Returns -1 if no key packet fits. */
int32_t stk__plan_key(const struct stk_frame_table *t, int32_t frame);

/* Splits the wanted frames, ascending, into segments. out: room for `count`. Returns the number of segments. Packets are decoded
 * twice only if two parts of the file take turns in presentation. */
int32_t stk__plan(const struct stk_frame_table *t, const int32_t *wanted, int32_t count, struct stk_segment *out);

#endif
