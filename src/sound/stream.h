/* SPDX-License-Identifier: Apache-2.0
 *
 * Sounds that libavcodec decodes: Vorbis, Opus, MP3, AAC and others, in any container that Stoker reads. This header uses no type of FFmpeg, so that other
 * layers can include it in builds without FFmpeg, in which stk__sound_library_create returns STK_UNSUPPORTED.
 *
 * Frames are counted without the encoder's delay and padding, as far as the file states them. Gaps between the times of packets count too, and become
 * silence, so that a frame's number follows from its time. A window has the samples that decoding everything and then cropping gives, bit for bit. Packets
 * before the window are decoded too, except in FLAC and MP3, where decoding can begin close to the window. */
#ifndef STK_SOUND_STREAM_H
#define STK_SOUND_STREAM_H

#include "sound/sound.h"

/* The loaded libraries of FFmpeg. Several threads may use them at once. Must outlive the streams that are opened with them. */
struct stk_sound_library;
bool stk__sound_library_built(void); /* returns whether this build can load FFmpeg's libraries */
STK_MUST_USE enum stk_status stk__sound_library_create(struct stk_sound_library **out, struct stk_error *err);
void stk__sound_library_destroy(struct stk_sound_library *l); /* accepts NULL */

/* An open sound. One thread at a time may use it. */
struct stk_sound_stream;

/* Opens the file, chooses its first audio stream and decodes its first frame. info->frames is -1: a number in a header leaves out gaps, and may be
 * wrong. `bytes` must outlive the stream. `lenient` applies to all later calls. STK_CORRUPT: damaged. STK_UNSUPPORTED: not a sound, or FFmpeg has no decoder
 * for it. STK_LIMIT: more than STK_SOUND_MAX_CHANNELS channels. STK_NO_MEMORY. */
STK_MUST_USE enum stk_status stk__stream_open(struct stk_sound_library *l, const struct stk_sound_bytes *bytes, bool lenient,
	struct stk_sound_stream **out, struct stk_sound_info *info, struct stk_error *err);
void stk__stream_close(struct stk_sound_stream *s); /* accepts NULL */

/* Receives decoded frames in order: interleaved samples of type info->pcm. If it returns another status than STK_OK, decoding ends with that status. */
typedef enum stk_status (*stk_stream_sink)(void *user, const uint8_t *samples, int64_t frames, struct stk_error *err);

/* Decodes frames from `first` on, `count` of them or all if count is -1, and passes them to `sink` in pieces; there are fewer frames if the file ends earlier.
 * May be called again for any window; a later call reads the file from its start again if its window begins before the decoded frame in which the last window
 * ended. STK_CORRUPT, unless the stream is lenient: damage, with its time in the message; pages of an Ogg file are missing; a packet's time cannot be
 * right; or the window reaches the end of a truncated file. STK_UNSUPPORTED: the sound's rate or channels change. STK_CANCELLED, STK_NO_MEMORY, or the
 * failure of `sink`. */
STK_MUST_USE enum stk_status stk__stream_decode(struct stk_sound_stream *s, int64_t first, int64_t count, stk_stream_sink sink, void *user,
	const struct stk_cancel *cancel, struct stk_error *err);

/* Sets *frames to the number of frames in the file, if they can be counted without decoding: of FLAC in Ogg and MP4. Otherwise sets it to -1. Reads the whole
 * file. Fails like a window of stk__stream_decode that reaches the end. */
STK_MUST_USE enum stk_status stk__stream_count(
	struct stk_sound_stream *s, const struct stk_cancel *cancel, int64_t *frames, struct stk_error *err);

#endif
