/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a media file (MP4, MOV, Matroska, WebM, AVI, MPEG-TS, raw H.264 and HEVC, and files of sound) and reads the packets of its streams. */
#ifndef STK_MEDIA_CONTAINER_H
#define STK_MEDIA_CONTAINER_H

#include "media/ffmpeg.h"
#include "media/input.h"

/* Limits of the resources that opening and reading a file may take. */
enum {
	STK_MEDIA_MOST_STREAMS = 256,
	STK_MEDIA_MOST_PACKETS = 1 << 26, /* packets of one stream */
};

struct stk_container;

/* Reads the file's headers. `f` and `in` must outlive the container. STK_CORRUPT, STK_UNSUPPORTED: the message describes the fault.
 * STK_LIMIT: the file's structure leads its reader in a circle, so the reader would never end. */
STK_MUST_USE enum stk_status stk__container_open(
	const struct stk_ffmpeg *f, const struct stk_media_input *in, struct stk_container **out, struct stk_error *err);
void stk__container_close(struct stk_container *c); /* takes NULL */

/* Returns the streams; valid until the container is closed. */
const AVFormatContext *stk__container_format(const struct stk_container *c);
/* Chooses the stream whose packets stk__container_next reads. wanted: its number; -1: the first stream of the given kind that is neither a cover picture nor
 * empty. */
STK_MUST_USE enum stk_status stk__container_choose(
	struct stk_container *c, enum AVMediaType kind, int wanted, AVStream **out, struct stk_error *err);

/* Returns whether stk__container_next returns packets without their bytes, only with their offset and size, because the file's headers list these. */
bool stk__container_blank(const struct stk_container *c);
/* Makes stk__container_next read the bytes of packets in any case. Call it before the first packet is read. */
void stk__container_read_bytes(struct stk_container *c);
/* Reads the next packet of the chosen stream, which the caller unrefs. STK_END after the last. */
STK_MUST_USE enum stk_status stk__container_next(struct stk_container *c, AVPacket *packet, struct stk_error *err);

#endif
