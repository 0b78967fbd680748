/* SPDX-License-Identifier: Apache-2.0
 * The members of a video's index (struct stk_video_index), for the files that make one or decode with it. */
#ifndef STK_MEDIA_INDEX_H
#define STK_MEDIA_INDEX_H

#include "media/packets.h"
#include "media/video.h"

struct stk_video_index {
	struct stk_ffmpeg f;
	struct stk_packets packets;
	AVCodecParameters *parameters; /* video_delay is the number of pictures that a decoder must keep back to return them in order */
	struct stk_frame_table table;
	int32_t *packet_of, *keys;
	int64_t *times;
	uint64_t serial; /* hash of the parameters: videos with the same hash can be decoded in one context, one after the other */
	struct stk_video_facts facts;
	int32_t largest; /* size in bytes of the largest packet */
	bool listed;     /* whether the file's headers list its packets, so that the index was made without reading the whole file */
};

/* Returns how many packets after a segment libavcodec may need to return the segment's frames. In H.264, decoding can begin at a picture that is not an IDR
 * picture. libavcodec then returns frames when later packets arrive, but not all of them at the end of the stream. */
int32_t stk__video_further(const struct stk_video_index *x);

/* Computes the rest of an index from its packets, its parameters, and the facts that are only in the file's headers: stream, rotation and container.
 * STK_CORRUPT: no frame can be decoded, or the frames' size is impossible. */
STK_MUST_USE enum stk_status stk__video_index_finish(struct stk_video_index *x, struct stk_error *err);

#endif
