/* SPDX-License-Identifier: Apache-2.0
 * The inside of a video's index, for the decoder. */
#ifndef STK_MEDIA_INDEX_H
#define STK_MEDIA_INDEX_H

#include "media/packets.h"
#include "media/video.h"

struct stk_video_index {
	struct stk_ffmpeg f;
	struct stk_packets packets;
	AVCodecParameters *parameters; /* video_delay is the number of packets that a decoder must hold back */
	struct stk_frame_table table;
	int32_t *packet_of, *keys;
	int64_t *times;
	uint64_t serial; /* hash of the parameters: a decoder serves all videos with the same one */
	struct stk_video_facts facts;
	int32_t largest; /* bytes of the largest packet */
	bool listed;     /* the file's headers list its packets: the index was read without a trip over the file */
};

/* Derives the rest of an index from its packets, its parameters, and the facts that only the file's headers hold: stream, rotation and container.
 * STK_CORRUPT: no frame can be decoded. */
STK_MUST_USE enum stk_status stk__video_index_finish(struct stk_video_index *x, struct stk_error *err);

#endif
