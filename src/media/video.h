/* SPDX-License-Identifier: Apache-2.0
 *
 * Videos: an index says which packets a file's frames need, and a decoder decodes wanted frames to RGB. This header names nothing of FFmpeg's, so other
 * layers include it in builds without FFmpeg too, in which every video is STK_UNSUPPORTED.
 *
 * Frame i is the i-th in order of presentation, after the edit list. Frames that cannot be decoded because the stream begins without a key frame are not
 * counted. Times are those of the file. */
#ifndef STK_MEDIA_VIDEO_H
#define STK_MEDIA_VIDEO_H

#include "base/cancel.h"
#include "media/input.h"
#include "media/plan.h"
#include "tensor/image.h"

#include <stdbool.h>

/* Facts about the chosen stream. */
struct stk_video_facts {
	int32_t stream;
	int32_t width, height; /* extents of frames as they are shown: after rotation */
	int32_t rotation;      /* clockwise: 0, 90, 180 or 270 degrees; applied to frames */
	int32_t frames, keys, packets;
	double begin, end; /* seconds: time of the first frame, and time at which the last one ends */
	double bit_rate;   /* bits a second of the stream's packets */
	int64_t bytes;     /* bytes of all packets */
	char codec[32], container[64];
};

struct stk_video_index;

/* Reads the index of a video: the list of its packets, in the headers or by one trip over the file. stream: number of the stream, or -1 for the first video
 * stream. STK_CORRUPT, STK_UNSUPPORTED, STK_LIMIT: the message says what is wrong with the file. Any thread. */
STK_MUST_USE enum stk_status stk__video_index_create(
	const struct stk_media_input *in, int32_t stream, struct stk_video_index **out, struct stk_error *err);
void stk__video_index_destroy(struct stk_video_index *x); /* takes NULL */
const struct stk_video_facts *stk__video_facts(const struct stk_video_index *x);
size_t stk__video_index_memory(const struct stk_video_index *x); /* bytes of memory that the index takes */

/* Return the time at which a frame begins, and for how long it is shown, in seconds. The last frame lasts as long as the file says, or as the frame before. */
double stk__video_time(const struct stk_video_index *x, int32_t frame);
double stk__video_duration(const struct stk_video_index *x, int32_t frame);
bool stk__video_key(const struct stk_video_index *x, int32_t frame);
/* Returns the frame that is shown at a time: the last frame that begins at or before that time; -1: the time is before the first frame. */
int32_t stk__video_shown(const struct stk_video_index *x, double seconds);
const struct stk_frame_table *stk__video_table(const struct stk_video_index *x);
/* Estimates how many bytes libavcodec needs to decode the video: for the frames that a stream of this codec, level and size may refer to, for frames that are
 * held back to return them in order, and for the largest packet. */
size_t stk__video_decode_memory(const struct stk_video_index *x);
/* Finds the byte range of the file that holds the packets of a segment, except those that are kept in the index. Returns false if all packets are kept. */
bool stk__video_range(const struct stk_video_index *x, const struct stk_segment *segment, int64_t *offset, int64_t *length);

/* Returns whether the index is worth keeping, because reading it from the file again would be much work: it is long, or needs a trip over a large file. */
bool stk__video_index_is_costly(const struct stk_video_index *x, int64_t file_size);
/* Writes the index as bytes, to be kept and read back on this machine. The caller frees them with stk__free. STK_NO_MEMORY. */
STK_MUST_USE enum stk_status stk__video_index_pack(const struct stk_video_index *x, uint8_t **out, size_t *size, struct stk_error *err);
/* Reads an index back. STK_CORRUPT: the bytes are damaged, or another version of Stoker or FFmpeg has written them. */
STK_MUST_USE enum stk_status stk__video_index_unpack(const uint8_t *data, size_t size, struct stk_video_index **out, struct stk_error *err);

/* ---- decoding ---- */

/* A decoder for one thread. The next video reuses libavcodec's context if it has the same parameters. */
struct stk_video_decoder;

struct stk_video_limits {
	int64_t max_pixels; /* frames with more pixels are refused; 0: the limit is 2^28 */
	bool lenient;       /* damaged frames are returned as far as they can be decoded, instead of an error */
};

STK_MUST_USE enum stk_status stk__video_decoder_create(
	const struct stk_video_limits *limits, struct stk_video_decoder **out, struct stk_error *err);
void stk__video_decoder_destroy(struct stk_video_decoder *d); /* takes NULL */

/* The frames to decode, and the function that says where each is written. */
struct stk_video_wanted {
	const int32_t *frames; /* frame numbers in ascending order, each once */
	int32_t count;
	bool next; /* further frames will probably be wanted next: keeps the decoder's state after the last one */
	/* Returns where the k-th frame of the list is to be written: an image of width x height pixels in 3 channels of uint8, of any strides. `data` NULL: the
	 * caller refuses that size, and has filled err. */
	struct stk_image (*place)(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err);
	void *user;
	const struct stk_cancel *cancel; /* nullable */
};

struct stk_video_counters {
	int64_t wanted, decoded,
		segments; /* wanted frames, packets that were decoded for them, and how often decoding began at a key packet */
	int64_t read_ns, decode_ns, convert_ns; /* time spent reading and decoding packets, and converting frames */
};

/* Decodes frames of the video. Messages name frame and time. STK_CORRUPT: a packet that a frame needs is damaged or missing. */
STK_MUST_USE enum stk_status stk__video_decode(struct stk_video_decoder *d, const struct stk_video_index *x,
	const struct stk_media_input *in, const struct stk_video_wanted *wanted, struct stk_error *err);
/* Forgets the video, whose index may then be destroyed. */
void stk__video_decoder_forget(struct stk_video_decoder *d);
struct stk_video_counters stk__video_decoder_counters(const struct stk_video_decoder *d);

#endif
