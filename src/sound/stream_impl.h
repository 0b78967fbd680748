/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of a stream, for the files stream.c, which decodes it, and stream_packets.c, which reads its packets and finds holes between them. */
#ifndef STK_SOUND_STREAM_IMPL_H
#define STK_SOUND_STREAM_IMPL_H

#include "base/error.h"
#include "media/container.h"
#include "sound/stream.h"

struct stk_stream_packet {
	AVPacket *packet;
	bool is_header;   /* a packet without samples of a stream that follows another one in the file ("chaining") */
	bool begins_link; /* the first packet with samples of such a stream */
};

/* Packets that were read and not sent to the decoder yet. Of an Ogg file they are the packets of one page and the first packet of the next page, since FFmpeg
 * may give wrong times to packets of a page if the page before them is missing. Of other files there is one packet. */
struct stk_stream_packets {
	struct stk_stream_packet *queue;
	int count, capacity, next; /* next: index of the first packet that was not sent yet */
	int ready;                 /* number of packets whose times are known to be right */
	bool ended;
	bool linking;       /* another stream has begun, and no packet with samples of it has been read yet */
	int64_t first_page; /* offset of the first page with samples of the current stream */
	int64_t due;        /* when the last packet ends, in units of the stream's time base; AV_NOPTS_VALUE: unknown */
	int64_t offset;     /* added to all times, so that a chained stream's times continue those of the stream before it */
};

#define STK_STREAM_NOT_DUE INT64_MIN

struct stk_sound_stream {
	const struct stk_ffmpeg *f;
	struct stk_media_input in;
	struct stk_container *container;
	AVStream *stream; /* belongs to the container */
	AVCodecContext *context;
	AVFrame *frame;
	struct stk_stream_packets packets;
	struct stk_sound_info info;
	bool lenient;
	int64_t limit; /* frames from this number on are padding that FFmpeg does not remove; INT64_MAX: no such frame is known */
	/* The number of frames of samples that the header promises, which strict decoding checks: of FLAC, and of a truncated MP3 file with the encoder's delay
	 * and padding; otherwise 0. The file may have more frames, since gaps and streams that follow the first one are not in it. It has fewer if it is a part
	 * of a longer file of FLAC. */
	int64_t promised;
	/* Times in units of the stream's time base. */
	int64_t start;  /* of the first packet; 0 if it has none; AV_NOPTS_VALUE before it has been read */
	int64_t origin; /* of the first frame of samples; AV_NOPTS_VALUE if frames have no times */
	/* The state of decoding since the file was opened. */
	bool pending;  /* `frame` holds samples that have not been passed on yet */
	bool drained;  /* the decoder has received the end of the stream */
	bool jumped;   /* packets were left out */
	bool relinked; /* the time of the next frame says nothing, since it is the first one of a chained stream */
	int64_t at;    /* number of the next frame of samples, or of the first one in `frame` if `pending` */
	int64_t due;   /* number of the sample whose time is the end of the last frame; STK_STREAM_NOT_DUE: there was no frame yet */
	int64_t shift; /* difference between `at` and the number that follows from a frame's time, set at a gap and where a chained stream begins */
	int64_t gap;     /* if `pending`: number of frames before `at` for which the file has no samples */
	uint8_t *block;  /* memory for the interleaved samples of a planar `frame`, and for silence */
	size_t capacity; /* size of `block` in bytes */
};

static inline enum stk_status stk__stream_no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory to decode a sound");
}

/* ---- stream_packets.c ---- */

/* Returns how many seconds `time`, in units of the stream's time base, is after the first frame of samples. */
double stk__stream_seconds_at(const struct stk_sound_stream *s, int64_t time);

/* Returns the number of samples by which a time may be too late although no packet is missing before it: recorders write times that vary by some
 * milliseconds, and containers round times. */
int64_t stk__stream_inaccuracy(const struct stk_sound_stream *s);

/* Returns whether the container is Ogg, whose pages have checksums, and in which streams may follow each other ("chaining"). */
bool stk__stream_is_ogg(const struct stk_sound_stream *s);

/* Reads packets until one in s->packets is ready to be sent to the decoder. STK_END: there are no more packets. STK_CORRUPT: packets
 * are missing in an Ogg file, and the stream is not lenient. */
STK_MUST_USE enum stk_status stk__stream_read_packets(struct stk_sound_stream *s, struct stk_error *err);

#endif
