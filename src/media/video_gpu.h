/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes frames of videos into GPU memory: on NVIDIA's video decoder if it has an engine for the stream, and else on the cores, with the same bytes. The cores
 * also decode frames in which the engine finds damage, so that the same frames are errors with and without a GPU.
 *
 * MPEG-2 and MPEG-4 are decoded on the cores: their inverse DCT is not defined to the bit, and the engine's differs from FFmpeg's. */
#ifndef STK_MEDIA_VIDEO_GPU_H
#define STK_MEDIA_VIDEO_GPU_H

#include "media/nvdec.h"
#include "media/video.h"

/* A decoder on a GPU, for one thread. */
struct stk_video_gpu;

/* The decoder holds a reference to `nvdec`. */
STK_MUST_USE enum stk_status stk__video_gpu_create(struct stk_nvdec *nvdec, struct stk_video_gpu **out, struct stk_error *err);
void stk__video_gpu_destroy(struct stk_video_gpu *g); /* takes NULL */
struct stk_gpu_device *stk__video_gpu_device(const struct stk_video_gpu *g);

/* Like stk__video_decode, but `place` returns images whose `data` is a device address. The images must be dense: width x height x 3 bytes without gaps. All
 * frames have been written when the function returns. after: frames are written only after the work that is queued on this stream. cores: decodes the frames
 * that the engine does not decode. only_cores: why the cores shall decode all frames; nullable. */
STK_MUST_USE enum stk_status stk__video_gpu_decode(struct stk_video_gpu *g, struct stk_video_decoder *cores,
	const struct stk_video_index *x, const struct stk_media_input *in, const struct stk_video_wanted *wanted, stk_gpu_stream after,
	const char *only_cores, struct stk_error *err);
/* Copies a frame from host memory, or from GPU memory if `from_gpu`, to GPU memory, and waits. */
STK_MUST_USE enum stk_status stk__video_gpu_put(
	struct stk_video_gpu *g, void *to, const void *from, bool from_gpu, size_t size, struct stk_error *err);
/* Returns how many bytes the surfaces of a session take that decodes the video. */
size_t stk__video_gpu_memory(const struct stk_video_index *x);
/* Forgets the video, whose index may then be destroyed. */
void stk__video_gpu_forget(struct stk_video_gpu *g);

struct stk_video_gpu_counters {
	int64_t on_gpu, on_cores;  /* frames that the engine decoded, and that the cores decoded */
	int64_t decoded, segments; /* packets that the engine decoded, and trips from a key packet */
	int64_t read_ns;           /* time that packets took to read */
};
struct stk_video_gpu_counters stk__video_gpu_counters(const struct stk_video_gpu *g);
/* Returns why frames were decoded on the cores the last time that happened; "" if it has not. */
const char *stk__video_gpu_why(const struct stk_video_gpu *g);

#endif
