/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes frames of videos into GPU memory: on NVIDIA's video decoder (the engine) if it supports the stream, otherwise on the cores, with the same bytes. The
 * cores also decode frames in which the engine finds damage, so that the same frames are errors with and without a GPU.
 *
 * MPEG-2 and MPEG-4 are always decoded on the cores: their inverse DCT is not defined to the bit, and that of NVIDIA's decoder differs from FFmpeg's. */
#ifndef STK_MEDIA_VIDEO_GPU_H
#define STK_MEDIA_VIDEO_GPU_H

#include "media/nvdec.h"
#include "media/video.h"

/* A decoder on a GPU, for one thread. */
struct stk_video_gpu;

/* Creates a decoder, which holds a reference to `nvdec`. */
STK_MUST_USE enum stk_status stk__video_gpu_create(struct stk_nvdec *nvdec, struct stk_video_gpu **out, struct stk_error *err);
void stk__video_gpu_destroy(struct stk_video_gpu *g); /* accepts NULL */
struct stk_gpu_device *stk__video_gpu_device(const struct stk_video_gpu *g);

/* Decodes like stk__video_decode, except that `destination` returns images whose `data` is a device address. The images must be dense: width x height x 3 bytes
 * without gaps. On success all frames have been written when it returns.
 *
 * after: a stream. Frames are not written before the work that is queued on it has finished. NULL: no other stream uses the memory. cores: decodes the frames
 * that the engine does not decode. only_cores: why the cores must decode all frames; may be NULL. */
STK_MUST_USE enum stk_status stk__video_gpu_decode(struct stk_video_gpu *g, struct stk_video_decoder *cores,
	const struct stk_video_index *x, const struct stk_media_input *in, const struct stk_video_wanted *wanted,
	const stk_gpu_stream *after, const char *only_cores, struct stk_error *err);
/* Copies a frame of `size` bytes to GPU memory, and waits for the copy. from: in host memory, or in GPU memory if `from_gpu`. */
STK_MUST_USE enum stk_status stk__video_gpu_put(
	struct stk_video_gpu *g, void *to, const void *from, bool from_gpu, size_t size, struct stk_error *err);
/* Returns how many bytes of GPU memory the surfaces of a session need to decode the video. */
size_t stk__video_gpu_memory(const struct stk_video_index *x);
/* Ends the use of the current video, whose index may then be destroyed. */
void stk__video_gpu_forget(struct stk_video_gpu *g);

struct stk_video_gpu_counters {
	int64_t on_gpu, on_cores;  /* numbers of frames that the engine decoded, and that the cores decoded */
	int64_t decoded, segments; /* numbers of packets sent to the engine to be decoded, and of starts at a key packet */
	int64_t read_ns;           /* nanoseconds spent on reading packets */
};
struct stk_video_gpu_counters stk__video_gpu_counters(const struct stk_video_gpu *g);
/* Returns the reason why frames were last decoded on the cores, or "" if none were. */
const char *stk__video_gpu_reason(const struct stk_video_gpu *g);

#endif
