/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of a decoder on a GPU and of one of its calls, for the files video_gpu*.c. */
#ifndef STK_MEDIA_VIDEO_GPU_IMPL_H
#define STK_MEDIA_VIDEO_GPU_IMPL_H

#include "media/video_gpu.h"

#include "media/annex_b.h"
#include "media/index.h"

#include "base/memory.h"

/* The frames ahead are those that the next call will probably want. Their packets are sent during this call, so that NVIDIA's decoder (the engine) decodes them
 * while the caller works. The next call takes most of them from the engine's surfaces. If the engine needs a surface before that, its picture is converted to
 * `memory`, from which the next call copies it. */
enum {
	STK_VIDEO_AHEAD = 4,
	STK_VIDEO_AHEAD_NUMBER = INT32_MAX / 2 /* the frame in ahead[i] has the number STK_VIDEO_AHEAD_NUMBER + i in calls of nvdec.h */
};
struct stk_video_ahead {
	int32_t frame, packet;
	bool has_picture;        /* the picture is in `memory` */
	struct stk_image layout; /* the layout of the picture in `memory` */
	stk_gpu_ptr memory;      /* GPU memory, which is reused for later frames; 0: not allocated yet */
	size_t size;
};

struct stk_video_gpu {
	struct stk_nvdec *nvdec;
	stk_gpu_stream stream;
	stk_gpu_event before;
	struct stk_nvdec_session *session; /* NULL between calls, unless a run can continue in the next call */
	/* The current run: the packets that have been sent in order from a key packet on, and the stream that they belong to. */
	const struct stk_video_index *index; /* NULL: there is no run */
	struct stk_annex_b units;
	int32_t first, next; /* packet at which the run began, and packet to send next */
	int32_t *sent;       /* indices of the packets that have been sent, in order */
	int32_t n_sent, sent_capacity;
	struct stk_video_ahead ahead[STK_VIDEO_AHEAD]; /* frame -1: the entry is not in use */
	struct stk_image layout;                       /* the layout of the image that was written last */
	int32_t latest;                                /* the last frame of the previous call, or -1 */
	int matrix; /* the conversion matrix of VP8 and VP9, as stk__colour_of_vp8 and stk__colour_of_vp9 return it */
	bool full;
	uint8_t *bytes, *converted; /* memory for a packet as the file stores it, and in Annex B */
	size_t capacity, converted_capacity;
	uint8_t *staging; /* host memory for a frame that the cores have decoded */
	size_t staging_size;
	uint64_t refused; /* if `refuses` is set: `serial` of the index of the last stream that the engine could not decode */
	bool refuses;
	char reason[160];
	struct stk_video_gpu_counters counters;
};

/* The state of one call of stk__video_gpu_decode. */
struct stk_video_gpu_call {
	struct stk_video_gpu *g;
	const struct stk_video_index *x;
	const struct stk_media_input *in;
	const struct stk_video_wanted *wanted;
	bool *written;          /* [index in the list of wanted frames]: the frame has been written */
	int32_t *number_of;     /* [packet - base]: index of the packet's frame in the list of wanted frames, or STK_NVDEC_UNWANTED */
	int32_t base, last;     /* number_of has entries for the packets `base` to `last` */
	int32_t n_unwritten;    /* number of wanted frames of the segment that have not been written yet */
	enum stk_status status; /* a failure that ends the call, for example of a kernel or of wanted->destination */
	/* The following members are for frames that the cores decode. */
	const int32_t *unwritten; /* [frame that the cores decode]: index in the list of wanted frames */
	struct stk_image to;      /* the destination of the frame in `staging`; if data is NULL, there is no frame in `staging` */
};

static inline enum stk_status stk__video_no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory to decode a video");
}

static inline enum stk_status stk__video_fail_unsupported(struct stk_error *err, const char *why)
{
	return stk__fail(err, STK_UNSUPPORTED, "%s", why);
}

/* video_gpu_packets.c: reads packets and sends them to the session. */
/* Raises the capacity of a buffer to at least `need` bytes. */
STK_MUST_USE enum stk_status stk__video_gpu_reserve(uint8_t **bytes, size_t *capacity, size_t need, struct stk_error *err);
/* Sets g->units from the file's header: the parameter sets of H.264 and HEVC, the first units of AV1, and nothing for VP8 and VP9. */
STK_MUST_USE enum stk_status stk__video_gpu_read_head(
	struct stk_video_gpu *g, const struct stk_video_index *x, enum stk_cuvid_codec codec, struct stk_error *err);
/* Returns the index of a packet's frame in the list of wanted frames, or STK_NVDEC_UNWANTED. */
int32_t stk__video_gpu_find_number(const struct stk_video_gpu_call *n, int32_t packet);
/* Sends the packets up to `last`. Skips packets that follow the run's first packet in the file but are presented before it, since these need earlier frames. */
STK_MUST_USE enum stk_status stk__video_gpu_send_up_to(struct stk_video_gpu_call *n, int32_t last, struct stk_error *err);

/* video_gpu_run.c: decodes segments on the engine. */
/* Ends the run, and gives its session back to stk_nvdec. */
void stk__video_gpu_end_run(struct stk_video_gpu *g);
/* Stores the reason why the cores decode frames in g->reason and, with the codec and the size of the frames, in the stk_nvdec. */
void stk__video_gpu_set_reason(struct stk_video_gpu_call *n, const char *why);
/* Decodes one segment as far as the engine can. Fails if the GPU fails, memory runs out or n->status is set. Other failures are not returned: the cores then
 * decode the remaining frames. */
STK_MUST_USE enum stk_status stk__video_gpu_try_segment(
	struct stk_video_gpu_call *n, const struct stk_segment *segment, struct stk_error *err);

#endif
