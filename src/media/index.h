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
};

#endif
