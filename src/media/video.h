/* SPDX-License-Identifier: Apache-2.0
 *
 * Videos: an index describes which packets a file's frames need, and a decoder decodes wanted frames to RGB. This header uses no types of FFmpeg, so that
 * other layers can include it in builds without FFmpeg, in which opening a video fails with STK_UNSUPPORTED.
 *
 * Frame i is number i in the order of presentation, after the edit list has been applied. Frames at the beginning that cannot be decoded for lack of a key
 * frame are not counted. Times are those in the file. */
#ifndef STK_MEDIA_VIDEO_H
#define STK_MEDIA_VIDEO_H

#include "base/cancel.h"
#include "media/input.h"
#include "media/plan.h"
#include "tensor/image.h"

#include <stdbool.h>

/* Facts about the stream that the index describes. */
struct stk_video_facts {
	int32_t stream;                /* index of the stream in the file */
	int32_t width, height;         /* extents of frames as shown, after rotation */
	int32_t rotation;              /* clockwise rotation that is applied to frames: 0, 90, 180 or 270 degrees */
	int32_t frames, keys, packets; /* numbers of frames, of packets at which decoding can begin, and of all packets */
	double begin, end, duration;   /* time of the first frame, end of the last frame, and the difference, in seconds */
	double average_fps;            /* number of frames divided by `duration`; 0: `duration` is not positive */
	double bit_rate;               /* bits per second of the stream's packets */
	int64_t bytes;                 /* total size of the packets in bytes */
	char codec[32], container[64];
};

/* Returns the version of FFmpeg, as "5.1.6"; "" if FFmpeg is not installed or the build is without it. FFmpeg's libraries stay loaded. Any thread. */
const char *stk__ffmpeg_version(void);

struct stk_video_index;

/* Reads the index of a video: the list of its packets, which is in the file's headers or is made by reading the whole file. stream: number of the stream, or
 * -1 for the first video stream. STK_CORRUPT, STK_UNSUPPORTED, STK_LIMIT: the message says what is wrong with the file. Any thread. */
STK_MUST_USE enum stk_status stk__video_index_create(
	const struct stk_media_input *in, int32_t stream, struct stk_video_index **out, struct stk_error *err);
void stk__video_index_destroy(struct stk_video_index *x); /* accepts NULL */
const struct stk_video_facts *stk__video_facts(const struct stk_video_index *x);
size_t stk__video_index_memory(const struct stk_video_index *x); /* number of bytes of memory that the index uses */

/* Return the time at which a frame begins, the time at which it ends, and the duration for which it is shown, in seconds. A frame ends exactly where the next
 * one begins. The duration of the last frame is the one in the file, or else that of the previous frame. */
double stk__video_time(const struct stk_video_index *x, int32_t frame);
double stk__video_end(const struct stk_video_index *x, int32_t frame);
double stk__video_duration(const struct stk_video_index *x, int32_t frame);
bool stk__video_key(const struct stk_video_index *x, int32_t frame);
/* Returns the number of the frame that is shown at a time: the last frame that begins at or before this time, or -1 if no frame does. */
int32_t stk__video_shown(const struct stk_video_index *x, double seconds);
const struct stk_frame_table *stk__video_table(const struct stk_video_index *x);
/* Estimates how many bytes libavcodec needs to decode the video: for the frames to which a stream of this codec, level and size may refer, for decoded
 * frames that wait to be returned in order, and for the largest packet. */
size_t stk__video_decode_memory(const struct stk_video_index *x);
/* Sets the byte range of the file with a segment's packets, and with those after it that decoding may need, except those stored in the index. Returns false
 * if all of them are stored in the index. */
bool stk__video_range(const struct stk_video_index *x, const struct stk_segment *segment, int64_t *offset, int64_t *length);

/* Returns whether the index should be stored because making it again is costly: it is long, or a large file would have to be read for it. */
bool stk__video_index_is_costly(const struct stk_video_index *x, int64_t file_size);
/* Returns whether the index holds a copy of a large part of the file's packets, as for MPEG-TS, so that storing it would store the file a second time. */
bool stk__video_index_is_copy(const struct stk_video_index *x, int64_t file_size);
/* Converts the index to bytes for stk__video_index_unpack. The caller frees *out with stk__free. */
STK_MUST_USE enum stk_status stk__video_index_pack(const struct stk_video_index *x, uint8_t **out, size_t *size, struct stk_error *err);
/* Converts bytes to an index. STK_CORRUPT: they are damaged, or another version of Stoker or FFmpeg has written them. */
STK_MUST_USE enum stk_status stk__video_index_unpack(const uint8_t *data, size_t size, struct stk_video_index **out, struct stk_error *err);

/* ---- decoding ---- */

/* A decoder for one thread. It reuses libavcodec's context if the next video has the same parameters. */
struct stk_video_decoder;

struct stk_video_limits {
	int64_t max_pixels; /* frames with more pixels are refused; 0: the limit is 2^28 */
	bool lenient;       /* true: damaged frames are returned as far as they can be decoded; false: they are errors */
};

STK_MUST_USE enum stk_status stk__video_decoder_create(
	const struct stk_video_limits *limits, struct stk_video_decoder **out, struct stk_error *err);
void stk__video_decoder_destroy(struct stk_video_decoder *d); /* accepts NULL */

/* The frames to decode, and their destinations. */
struct stk_video_wanted {
	const int32_t *frames; /* numbers of frames in ascending order, without repetitions */
	int32_t count;
	bool next; /* true if the next call will probably want the following frames, so that the decoder keeps its state */
	/* Returns where frame number k of the list is to be written: an image of width x height pixels with 3 channels of uint8 and any strides. To refuse
	 * the size, returns an image whose `data` is NULL, and sets err. */
	struct stk_image (*destination)(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err);
	void *user;
	const struct stk_cancel *cancel; /* may be NULL */
};

struct stk_video_counters {
	int64_t wanted, decoded, segments;      /* numbers of: wanted frames; decoded packets; segments (plan.h) */
	int64_t read_ns, decode_ns, convert_ns; /* time spent on reading packets, decoding them, and converting frames */
};

/* Decodes frames of the video. Messages name the frame and its time. STK_CORRUPT: a packet that a frame needs is damaged or missing. */
STK_MUST_USE enum stk_status stk__video_decode(struct stk_video_decoder *d, const struct stk_video_index *x,
	const struct stk_media_input *in, const struct stk_video_wanted *wanted, struct stk_error *err);
/* Ends the use of the current video, whose index may then be destroyed. */
void stk__video_decoder_forget(struct stk_video_decoder *d);
struct stk_video_counters stk__video_decoder_counters(const struct stk_video_decoder *d);

#endif
