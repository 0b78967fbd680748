/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes single frames of a video without a pipeline, for code that opens one file at a time. FFmpeg's libraries are loaded when the first video is opened.
 *
 * Frame i is the i-th in order of presentation, after the edit list. Frames that cannot be decoded because the stream begins without a key frame are not
 * counted. Times are those of the file, in seconds. */
#ifndef STOKER_VIDEO_H
#define STOKER_VIDEO_H

#include "stoker/storage.h"
#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open video. Only one call at a time may use it. */
struct stk_video;

/* A request to open a video. Zero-initialise it. Set one of path, data and read. */
struct stk_video_request {
	size_t size;                 /* sizeof(struct stk_video_request) */
	const char *path;            /* a file, or a URI of an object */
	struct stk_storage *storage; /* for URIs; NULL: the settings of the environment */
	const void *data;            /* the file's bytes, which must stay valid until the video is closed */
	int64_t bytes;               /* size of the file, if data or read is set */
	/* Reads exactly n bytes of the file at `offset`. Called only during calls of this header's functions, on the thread that made the call. On failure it
	 * fills err->message. */
	enum stk_status (*read)(void *user, int64_t offset, void *to, size_t n, struct stk_error *err);
	void *read_user;
	int32_t stream; /* number of the stream, or -1 for the first video stream */
	bool lenient;   /* true: damaged frames are decoded as far as possible */
	/* Called about twenty times per second, on the same thread, while a call reads or decodes. true: the call ends with STK_CANCELLED. May be NULL. */
	bool (*interrupted)(void *user);
	void *interrupted_user;
};

/* Opens a video and lists its frames without decoding any. STK_NOT_FOUND, STK_IO: the file cannot be read. STK_CORRUPT: it is damaged. STK_UNSUPPORTED: it
 * is not a video that Stoker reads, this build has no support for videos, or FFmpeg's libraries are not installed. STK_LIMIT: the video exceeds a limit.
 * STK_INVALID: the request is invalid. STK_CANCELLED. STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_video_open(const struct stk_video_request *request, struct stk_video **out, struct stk_error *err);
/* Closes a video and frees its memory. Accepts NULL. */
STK_API void stk_video_close(struct stk_video *v);

/* Facts about a video. Texts live as long as the video. */
struct stk_video_info {
	size_t size; /* sizeof(struct stk_video_info), set by the caller */
	int32_t stream;
	int32_t width, height; /* size in pixels that the file gives, after rotation; frames may have other sizes */
	int32_t rotation;      /* degrees by which the file asks to turn frames clockwise: 0, 90, 180 or 270 */
	int64_t frames, keys;  /* number of frames, and number of packets at which decoding can begin */
	int64_t bytes;         /* total size of the stream's packets */
	double begin, end;     /* time of the first frame, and time at which the last one ends */
	double duration;       /* end - begin */
	double average_fps;    /* frames / duration; 0 if the duration is not positive */
	double bit_rate;       /* bits per second of the stream's packets */
	const char *codec, *container;
};
STK_API STK_MUST_USE enum stk_status stk_video_describe(const struct stk_video *v, struct stk_video_info *out, struct stk_error *err);

/* When a frame is shown, and whether decoding can begin at it. */
struct stk_video_frame {
	double begin, duration;
	bool key;
};
/* Describes a frame. STK_INVALID: there is no such frame. */
STK_API STK_MUST_USE enum stk_status stk_video_frame(
	const struct stk_video *v, int64_t frame, struct stk_video_frame *out, struct stk_error *err);
/* Returns the number of the frame that is shown at a time: the last frame that begins at or before this time, or -1 if no frame does. For times after the end
 * of the last frame, returns the last frame's number. */
STK_API int64_t stk_video_shown(const struct stk_video *v, double seconds);

/* Finds the byte range of the file with the packets from which the frames first .. last are decoded. *length is 0 if all of them are in memory. STK_INVALID:
 * there are no such frames. STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_video_range(
	const struct stk_video *v, int64_t first, int64_t last, int64_t *offset, int64_t *length, struct stk_error *err);

/* Decodes frames, whose numbers may be in any order and may repeat: uint8 of shape (count, height, width, 3), or (count, 3, height, width) if planar. They lie
 * in memory of the library, valid until the next call or until the video is closed. *height and *width are their size. Frames are planned together, so that
 * no packet is decoded twice. STK_INVALID: there is no such frame. STK_SHAPE: the frames have different sizes. STK_CORRUPT: a frame is damaged; the message
 * says which, and its time. STK_LIMIT: they need more than 2^35 bytes. STK_IO, STK_UNSUPPORTED, STK_CANCELLED, STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_video_read(struct stk_video *v, const int64_t *frames, int64_t count, bool planar,
	const uint8_t **out, int32_t *height, int32_t *width, struct stk_error *err);

/* The video decoder of a GPU. It keeps the driver's decoders from one video to the next, because making and destroying them takes long. Any thread. */
struct stk_video_device;
/* Opens the decoder of GPU number `device`. If the GPU cannot be used, returns the error that stk_pipeline_create returns in that case. */
STK_API STK_MUST_USE enum stk_status stk_video_device_open(int32_t device, struct stk_video_device **out, struct stk_error *err);
/* Closes the decoder, or does nothing for NULL. Videos that use the device keep it open. */
STK_API void stk_video_device_close(struct stk_video_device *d);

/* Makes stk_video_read_gpu decode on a GPU. */
STK_API STK_MUST_USE enum stk_status stk_video_use_gpu(struct stk_video *v, struct stk_video_device *d, struct stk_error *err);

/* Like stk_video_read, but writes the frames to memory of the GPU: count * height * width * 3 bytes at `to`, height and width as stk_video_describe gives them.
 * The GPU's video decoder makes the frames that it supports, and the cores make the others, with the same bytes. stream: the CUstream on which the memory is
 * used; NULL is the default stream. Work that was queued there before ends before the memory is written, and work that is queued there afterwards finds the
 * frames. STK_STATE: stk_video_use_gpu was not called. STK_SHAPE: a frame has another size. STK_CUDA, and the errors of stk_video_read. */
STK_API STK_MUST_USE enum stk_status stk_video_read_gpu(
	struct stk_video *v, const int64_t *frames, int64_t count, bool planar, uint64_t to, void *stream, struct stk_error *err);

/* Copies the counters since the video was opened: "frames_wanted", "packets_decoded", "segments" (runs of packets decoded from a key frame on), "requests"
 * (to a store), "index_kept" (1: the list of frames came from a file that an earlier run has kept), "frames_on_gpu" (that the GPU's video decoder made),
 * and the time that the cores spent: "read_seconds" (reading packets), "decode_seconds" and "convert_seconds" (to RGB), which leave out the work of the GPU.
 * Fills at most n entries and returns the number of counters. */
STK_API size_t stk_video_counters(const struct stk_video *v, struct stk_counter *out, size_t n);
/* Returns the reason why frames for the GPU were last decoded on the cores; "" if they never were. Valid until the next call. */
STK_API const char *stk_video_why_on_cores(const struct stk_video *v);

#ifdef __cplusplus
}
#endif
#endif
