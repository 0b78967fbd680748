/* SPDX-License-Identifier: Apache-2.0
 * Replaces stream.c in builds without FFmpeg's headers: every sound but WAV and FLAC is STK_UNSUPPORTED. */
#include "base/error.h"
#include "sound/stream.h"

bool stk__sound_library_built(void)
{
	return false;
}

enum stk_status stk__sound_library_create(struct stk_sound_library **out, struct stk_error *err)
{
	*out = NULL;
	return stk__fail(err, STK_UNSUPPORTED,
		"this build of Stoker decodes only WAV and FLAC: install FFmpeg's headers (Debian: libavformat-dev libavcodec-dev libavutil-dev) and build it again, or "
		"convert the file: ffmpeg -i INPUT -c:a pcm_s16le output.wav");
}

void stk__sound_library_destroy(struct stk_sound_library *l)
{
	(void)l;
}

enum stk_status stk__stream_open(struct stk_sound_library *l, const struct stk_sound_bytes *bytes, bool lenient,
	struct stk_sound_stream **out, struct stk_sound_info *info, struct stk_error *err)
{
	(void)l, (void)bytes, (void)lenient, (void)info;
	*out = NULL;
	return stk__fail(err, STK_STATE, "no library is loaded");
}

void stk__stream_close(struct stk_sound_stream *s)
{
	(void)s;
}

enum stk_status stk__stream_decode(struct stk_sound_stream *s, int64_t first, int64_t count, stk_stream_sink sink, void *user,
	const struct stk_cancel *cancel, struct stk_error *err)
{
	(void)s, (void)first, (void)count, (void)sink, (void)user, (void)cancel;
	return stk__fail(err, STK_STATE, "no sound is open");
}

enum stk_status stk__stream_count(struct stk_sound_stream *s, const struct stk_cancel *cancel, int64_t *frames, struct stk_error *err)
{
	(void)s, (void)cancel, (void)frames;
	return stk__fail(err, STK_STATE, "no sound is open");
}
