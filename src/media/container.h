/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a media file (MP4, MOV, Matroska, WebM, AVI, MPEG-TS, raw H.264 and HEVC, and sound files) and reads the packets of its streams. */
#ifndef STK_MEDIA_CONTAINER_H
#define STK_MEDIA_CONTAINER_H

#include "media/ffmpeg.h"
#include "media/input.h"

/* Limits of what opening and reading a file may cost. */
enum {
	STK_MEDIA_MOST_STREAMS = 256,
	STK_MEDIA_MOST_PACKETS = 1 << 26, /* maximum number of packets of one stream */
	STK_MEDIA_MOST_TIMES =
		64, /* maximum total size of the packets that a header lists, as a multiple of the file's size: edit lists may repeat packets */
};

struct stk_container;

enum stk_extent {
	STK_EXTENT_UNKNOWN, /* the structure does not show where the file should end, or only that its last part is complete */
	STK_EXTENT_WHOLE,
	STK_EXTENT_CUT
};

/* Reads the file's headers. `f` and `in` must outlive the container. STK_CORRUPT, STK_UNSUPPORTED: the message says why. STK_LIMIT: the file has more than
 * STK_MEDIA_MOST_STREAMS streams, its header lists impossibly many packets or asks for too much memory, or reading it would not end, because its structure refers
 * back to itself. */
STK_MUST_USE enum stk_status stk__container_open(
	const struct stk_ffmpeg *f, const struct stk_media_input *in, struct stk_container **out, struct stk_error *err);
void stk__container_close(struct stk_container *c); /* accepts NULL */

/* Returns the file's format with its streams; valid until the container is closed. */
const AVFormatContext *stk__container_format(const struct stk_container *c);
/* Chooses the stream whose packets stk__container_next reads. wanted: index of the stream in the file, or -1 for the first stream of the given kind that is
 * not a cover picture. */
STK_MUST_USE enum stk_status stk__container_choose(
	struct stk_container *c, enum AVMediaType kind, int wanted, AVStream **out, struct stk_error *err);

/* Returns whether stk__container_next gives only the offsets and sizes of packets, without their bytes. It does if the file's headers list all packets,
 * since listing them then needs no other reads. */
bool stk__container_blank(const struct stk_container *c);
/* Makes stk__container_next always read the bytes of packets. Call it before the first packet is read. */
void stk__container_read_bytes(struct stk_container *c);
/* Compares the file's size with the end that its structure states: by the sizes in Matroska, AVI, FLV, WAV, W64, AIFF, CAF and AU, the packets that MP4 lists,
 * the boxes of fragmented MP4, the pages that end the streams of Ogg, and the number of frames in IVF. UNKNOWN for other containers, whose missing bytes FFmpeg
 * reports if it can, and while stk__container_blank is true. An AVI file that lacks only its index is not CUT. Call it after the last packet. */
enum stk_extent stk__container_extent(const struct stk_container *c);
/* Returns whether the end of an MP4, AVI or FLV file cuts off bytes of this packet, which stk__container_next has read. */
bool stk__container_cuts(const struct stk_container *c, const AVPacket *packet);
/* Reads the next packet of the chosen stream; the caller must release it with av_packet_unref. STK_END after the last packet. */
STK_MUST_USE enum stk_status stk__container_next(struct stk_container *c, AVPacket *packet, struct stk_error *err);

#endif
