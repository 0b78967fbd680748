/* SPDX-License-Identifier: Apache-2.0
 * Clips: which frames of a video a sample has, and their decoding to one tensor of layout FHWC. Shared by the readers and the decoder of videos. */
#ifndef STK_OP_VIDEO_CLIP_H
#define STK_OP_VIDEO_CLIP_H

#include "media/video_gpu.h"
#include "op/op.h"

/* The ways to continue a clip that reaches outside of its video. */
enum stk_clip_pad { STK_CLIP_NONE, STK_CLIP_CONSTANT, STK_CLIP_EDGE, STK_CLIP_REFLECT_1001, STK_CLIP_REFLECT_101 };
#define STK_CLIP_PADS "none|constant|edge|repeat|reflect_1001|symmetric|reflect_101|reflect"
enum stk_clip_pad stk__clip_pad(const char *mode);

enum { STK_CLIP_FILL = -1 }; /* instead of a frame's number: the frame is filled with a constant */

/* Returns the number of the frame to show for frame i, which may be outside of a video of `frames` frames; STK_CLIP_FILL if i is outside and pad is
 * STK_CLIP_CONSTANT or STK_CLIP_NONE. */
int64_t stk__clip_continue(int64_t i, int64_t frames, enum stk_clip_pad pad);

/* A worker's decoders of videos, made at the first use. */
struct stk_video_tool;
void stk__video_tool_destroy(struct stk_video_tool *t); /* accepts NULL */
/* Drops the index that stk__clip_index has made. Call it when a sample's chain ends: after that, other bytes may lie at the same address. Accepts NULL. */
void stk__video_tool_forget(struct stk_video_tool *t);

/* Sets *out to the index of the video in data[0 .. size - 1]. The index is valid until the sample's chain ends, or the worker calls this with other bytes. */
STK_MUST_USE enum stk_status stk__clip_index(
	const struct stk_call *call, const uint8_t *data, size_t size, const struct stk_video_index **out, struct stk_error *err);

/* Returns the desc of a clip's tensor. x: the video's index; NULL while a graph is built. frames: number of the clip's frames; -1: not known. */
struct stk_desc stk__clip_desc(const struct stk_video_index *x, int64_t frames, enum stk_dtype dtype);

/* The form in which a clip is written. */
struct stk_clip_style {
	enum stk_dtype dtype; /* STK_UINT8 or STK_FLOAT */
	bool normalized;      /* floats from 0 to 1, and not from 0 to 255 */
	struct stk_ints fill; /* value of frames that are filled: one for all channels, or one for each of the three */
};
/* Returns STK_INVALID unless the fill has 1 or 3 values and the type is STK_UINT8 or STK_FLOAT. */
STK_MUST_USE enum stk_status stk__clip_check(const struct stk_clip_style *style, struct stk_error *err);

/* Counters of a worker's decoders at one moment. stk__video_tally adds the difference between two moments to a tally. gpu: NULL without a decoder on a GPU. */
struct stk_video_done {
	struct stk_video_counters cores;
	struct stk_video_gpu_counters gpu;
};
struct stk_video_done stk__video_done(const struct stk_video_decoder *cores, const struct stk_video_gpu *gpu);
void stk__video_tally(struct stk_video_tally *t, const struct stk_video_done *before, const struct stk_video_done *after);

/* Decodes frames to the tensor `out`, which is in GPU memory if call->gpu is set. The frames may be in any order, and a frame may occur several times. */
STK_MUST_USE enum stk_status stk__clip_decode(const struct stk_call *call, const struct stk_video_index *x,
	const struct stk_media_input *in, const int32_t *frames, int32_t count, const struct stk_clip_style *style,
	const struct stk_tensor *out, struct stk_error *err);

#endif
