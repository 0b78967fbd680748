/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache of videos, by path, for an operator that reads single frames: their indexes, and decoders that keep their position in a video, so that the frame
 * after the last decoded one costs one packet. Any thread may call these functions; no lock is held while a file is read or decoded. */
#ifndef STK_OP_VIDEO_CACHE_H
#define STK_OP_VIDEO_CACHE_H

#include "media/video.h"
#include "op/op.h"

struct stk_video_cache;

/* Creates an empty cache. decoders: maximum number of decoders that it keeps between calls; concurrent calls may use more. */
STK_MUST_USE enum stk_status stk__video_cache_create(int32_t decoders, struct stk_video_cache **out, struct stk_error *err);
void stk__video_cache_destroy(void *cache); /* accepts NULL; no other call may be running */

/* The frame that a call asks for, and how it is decoded. */
struct stk_frame_request {
	const char *path;
	int64_t frame;  /* number of the frame; -1: `seconds` chooses the frame */
	double seconds; /* time at which the frame is shown; a frame that begins within the next microsecond counts as shown */
	struct stk_access access;
	struct stk_video_limits limits; /* limits of the pipeline; the same in all calls */
	const struct stk_cancel *cancel;
	const struct stk_gpu_call *gpu; /* the GPU that decodes to its memory; NULL: decode to host memory */
	struct stk_video_tally *tally;  /* counts of decoded frames to increase; nullable */
};

/* Decodes a frame to memory of the arena or of the GPU, and sets *out to it, an image of uint8 with 3 channels. Messages name the file. STK_INVALID: the video
 * has no such frame. */
STK_MUST_USE enum stk_status stk__video_cache_read(struct stk_video_cache *c, const struct stk_frame_request *request,
	struct stk_arena *arena, struct stk_image *out, struct stk_error *err);

#endif
