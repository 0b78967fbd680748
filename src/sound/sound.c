/* SPDX-License-Identifier: Apache-2.0
 * Finds the format of a sound file, and reads windows of WAV files, whose samples are stored one after the other. */
#include "sound/sound.h"

#include "base/error.h"
#include "codec/codec.h"
#include "sound/flac.h"
#include "sound/stream.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HEAD = 1024, COSTLY_HEAD = 44, SHOWN_BYTES = 16 };

static enum stk_status read_memory(void *user, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err)
{
	(void)n, (void)err;
	*out = (const uint8_t *)user + at;
	return STK_OK;
}

struct stk_sound_bytes stk__sound_memory(const uint8_t *data, size_t size)
{
	return (struct stk_sound_bytes){read_memory, (void *)(uintptr_t)data, size, data};
}

bool stk__sound_ending(const char *ending)
{
	static const char *const endings[] = {"wav", "wave", "bwf", "rf64", "flac", "ogg", "oga", "opus", "mp3", "m4a", "aac", "mka"};
	const size_t count = stk__sound_library_built() ? sizeof endings / sizeof *endings : 5;
	for (size_t i = 0; i < count; i++)
		if (strcasecmp(ending, endings[i]) == 0)
			return true;
	return false;
}

/* Returns the name of a sound format that stk__sound_peek does not read, recognised by the file's first bytes; NULL if it is not known. */
static const char *other_sound(const uint8_t *data, size_t size)
{
	static const struct {
		uint8_t at, length;
		const char *bytes, *name;
	} kinds[] = {{0, 4, "OggS", "an Ogg file (Vorbis or Opus)"}, {0, 3, "ID3", "an MP3 file"}, {4, 4, "ftyp", "an MP4 file (M4A)"},
		{0, 4, "\x1a\x45\xdf\xa3", "a Matroska or WebM file"}, {0, 4, "FORM", "an AIFF file"}, {0, 4, ".snd", "an AU file"},
		{0, 4, "caff", "a CAF file"}, {0, 4, "riff", "a Wave64 file"}, {0, 4, "wvpk", "a WavPack file"},
		{0, 4, "RIFX", "a WAV with big-endian numbers (RIFX)"}, {0, 4, "MThd", "a MIDI file, which holds notes"},
		{8, 4, "AVI ", "an AVI file"}, {0, 4, "FLV\1", "an FLV file"}, {0, 4, "\0\0\1\xba", "an MPEG file"},
		{4, 4, "moov", "a QuickTime file"}, {4, 4, "mdat", "a QuickTime file"}, {4, 4, "wide", "a QuickTime file"}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (size >= (size_t)kinds[i].at + kinds[i].length && !memcmp(data + kinds[i].at, kinds[i].bytes, kinds[i].length))
			return kinds[i].name;
	for (size_t prefix = 0, sync = 0x47; prefix <= 4;
		prefix += 4) /* packets have 188 bytes; in M2TS files, 4 bytes precede each packet */
		if (size > 2 * prefix + 188 && data[prefix] == sync && data[2 * prefix + 188] == sync)
			return "an MPEG transport stream";
	if (size >= 2 && data[0] == 0xff && (data[1] & 0xe0) == 0xe0 && data[1] != 0xff && data[1] != 0xfe)
		return (data[1] & 6) == 0 ? "an AAC file (ADTS)" : "an MP3 file";
	return NULL;
}

static enum stk_status fail_unknown(const uint8_t *data, size_t size, struct stk_error *err)
{
	const char *other = other_sound(data, size);
	char kind[200];
	if (other)
		return stk__fail(err, STK_UNSUPPORTED,
			"neither WAV nor FLAC: it is %s, which is not decoded; convert it: ffmpeg -i INPUT -c:a pcm_s16le output.wav",
			other);
	if (size >= 16 && !memcmp(data + 8, "WAVEfmt ", 8))
		return stk__fail(err, STK_CORRUPT, "a WAV whose first bytes are damaged: they must be RIFF");
	if (stk__describe_no_media(data, size, kind, sizeof kind))
		return stk__fail(err, STK_CORRUPT, "not a sound: it is %s", kind);
	char shown[4 * SHOWN_BYTES + 1] = "";
	size_t n = 0;
	for (size_t i = 0; i < size && i < SHOWN_BYTES; i++) {
		bool plain = data[i] >= ' ' && data[i] < 0x7f && data[i] != '"' && data[i] != '\\';
		n += (size_t)snprintf(shown + n, sizeof shown - n, plain ? "%c" : "\\x%02x", data[i]);
	}
	return stk__fail(err, STK_CORRUPT, "neither WAV nor FLAC (starts with \"%s\")", shown);
}

enum stk_status stk__sound_peek(const struct stk_sound_bytes *bytes, bool lenient, struct stk_sound_info *info, struct stk_error *err)
{
	const uint8_t *head = NULL;
	const size_t most = bytes->costly ? COSTLY_HEAD : HEAD, n = bytes->size < most ? (size_t)bytes->size : most;
	enum stk_status s = bytes->read(bytes->user, 0, n, &head, err);
	if (s)
		return s;
	if (!stk__wav_probe(head, n)) {
		uint64_t flac = 0;
		if ((s = stk__flac_find(bytes, head, n, &flac, err)))
			return s;
		if (flac != UINT64_MAX)
			return stk__flac_peek(bytes, flac, lenient, info, err);
		if ((s = bytes->read(bytes->user, 0, n, &head,
			     err))) /* reads the first bytes again: the earlier pointer is not valid after the call above */
			return s;
		return fail_unknown(head, n, err);
	}
	*info = (struct stk_sound_info){.format = "wav"};
	return stk__wav_peek(bytes, lenient, info, err);
}

enum stk_status stk__sound_span(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first, int64_t count,
	uint64_t margin, uint64_t *from, uint64_t *to)
{
	if (!strcmp(info->format, "flac"))
		return stk__flac_span(bytes, info, first, count, margin, from, to);
	*from = info->begin + (uint64_t)first * info->frame_bytes;
	*to = *from + (uint64_t)count * info->frame_bytes;
	return STK_OK;
}

enum stk_status stk__sound_read(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info,
	const struct stk_sound_window *window, struct stk_error *err)
{
	if (!strcmp(info->format, "flac"))
		return stk__flac_read(bytes, info, window, err);
	int64_t most = STK_SOUND_READ / info->frame_bytes, out_channels = window->mono ? 1 : info->channels;
	uint64_t at = info->begin + (uint64_t)window->first * info->frame_bytes;
	uint8_t *to = window->to;
	for (int64_t left = window->count, n; left > 0; left -= n) {
		const uint8_t *from = NULL;
		n = left < most ? left : most;
		size_t size = (size_t)n * info->frame_bytes;
		if (window->cancel && stk__cancelled(window->cancel))
			return stk__fail(err, STK_CANCELLED, "decoding was cancelled");
		enum stk_status s = bytes->read(bytes->user, at, size, &from, err);
		if (s)
			return s;
		stk__pcm_convert(info->pcm, from, n, info->channels, window->mono, window->dtype, to);
		at += size;
		to += (size_t)(n * out_channels) * stk_dtype_size(window->dtype);
	}
	return STK_OK;
}
