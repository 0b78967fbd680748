/* SPDX-License-Identifier: Apache-2.0
 * Reads the header of WAV files: RIFF, and RF64 and BW64 (EBU Tech 3306, ITU-R BS.2088), which store large sizes in a chunk ds64. */
#include "base/error.h"
#include "codec/bytes.h"
#include "sound/sound.h"

#include <string.h>

enum { RIFF_HEADER = 12, CHUNK_HEADER = 8, DS64_BYTES = 24, FMT_LEAST = 14, FMT_PCM = 16, FMT_EXTENSIBLE = 40, MOST_CHUNKS = 4096 };
enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_ALAW = 6, TAG_MULAW = 7, TAG_EXTENSIBLE = 0xfffe };
#define UNKNOWN_SIZE UINT32_MAX      /* written by programs that cannot return to the header to fill it in */
#define SOX_UNKNOWN_SIZE 0x7ffff000u /* written by SoX and espeak-ng, rounded down to whole frames */

/* Facts about the file, collected while its chunks are visited. */
struct wav {
	uint64_t size;         /* size of the file in bytes */
	bool has_64_bit_sizes; /* the file is RF64 or BW64 */
	bool has_ds64, has_fmt, has_data;
	uint64_t ds64_data; /* size in bytes of the data chunk, from ds64 */
	uint32_t tag, rate, block, bits;
	uint32_t channels;
	uint64_t data, header_size; /* offset of the first sample; size in bytes of the samples, as the header states it */
};

bool stk__wav_probe(const uint8_t *data, size_t size)
{
	return size >= RIFF_HEADER && (!memcmp(data, "RIFF", 4) || !memcmp(data, "RF64", 4) || !memcmp(data, "BW64", 4)) &&
	       !memcmp(data + 8, "WAVE", 4);
}

/* ---- chunks ---- */

static enum stk_status read_fmt(struct wav *w, const uint8_t *p, size_t n, struct stk_error *err)
{
	static const uint8_t guid[2][14] = {{0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71}, /* KSDATAFORMAT_SUBTYPE */
		{0, 0, 0x21, 7, 0xd3, 0x11, 0x86, 0x44, 0xc8, 0xc1, 0xca, 0, 0, 0}};                      /* ambisonic B-format */
	if (n < FMT_LEAST)
		return stk__fail(err, STK_CORRUPT, "a WAV whose fmt chunk has %zu bytes, of at least %d", n, FMT_LEAST);
	w->tag = stk__get16(p, true);
	w->channels = stk__get16(p + 2, true);
	w->rate = stk__get32(p + 4, true);
	w->block = stk__get16(p + 12, true);
	w->bits = n >= FMT_PCM ? stk__get16(p + 14, true) : 0;
	w->has_fmt = true;
	if (w->tag != TAG_EXTENSIBLE)
		return STK_OK;
	if (n < FMT_EXTENSIBLE)
		return stk__fail(err, STK_CORRUPT, "a WAV whose extensible fmt chunk has %zu bytes instead of %d", n, FMT_EXTENSIBLE);
	w->tag = stk__get16(p + 24, true);
	if (memcmp(p + 26, guid[0], 14) != 0 && memcmp(p + 26, guid[1], 14) != 0)
		return stk__fail(err, STK_UNSUPPORTED,
			"a WAV with a coding that only its own program knows (its GUID is not one of Microsoft's); convert it: ffmpeg -i "
			"INPUT -c:a pcm_s16le output.wav");
	return STK_OK;
}

/* Reads a ds64 chunk, or the first fmt or data chunk, into *w; ignores other chunks. head: the chunk's header; at: offset of its contents. Sets *end to the
 * offset of the next chunk, which is not below the file's end if no chunk follows. */
static enum stk_status read_chunk(struct wav *w, const struct stk_sound_bytes *bytes, const uint8_t head[CHUNK_HEADER], uint64_t at,
	uint64_t *end, struct stk_error *err)
{
	uint32_t n = stk__get32(head + 4, true);
	const uint8_t *p = NULL;
	enum stk_status s;
	*end = at + n + (n & 1);
	if (!memcmp(head, "data", 4) && !w->has_data) {
		w->has_data = true;
		w->data = at;
		w->header_size = w->has_64_bit_sizes && n == UNKNOWN_SIZE ? w->ds64_data : n;
		if (w->has_64_bit_sizes && n == UNKNOWN_SIZE)
			*end = w->header_size < w->size - at ? at + w->header_size + (w->header_size & 1) : w->size;
		return STK_OK;
	}
	bool fmt = !memcmp(head, "fmt ", 4) && !w->has_fmt, ds64 = w->has_64_bit_sizes && !memcmp(head, "ds64", 4);
	if (!fmt && !ds64)
		return STK_OK;
	if (n > w->size - at)
		return stk__fail(err, STK_CORRUPT, "a truncated WAV: it ends in its header, at %llu bytes", (unsigned long long)w->size);
	if (ds64 && n < DS64_BYTES)
		return stk__fail(err, STK_CORRUPT, "a WAV whose ds64 chunk has %u bytes, of at least %d", n, DS64_BYTES);
	n = n < FMT_EXTENSIBLE ? n : FMT_EXTENSIBLE;
	if (n && (s = bytes->read(bytes->user, at, n, &p, err)))
		return s;
	if (fmt)
		return read_fmt(w, p, n, err);
	w->has_ds64 = true;
	w->ds64_data = stk__get64(p + 8, true);
	if (w->ds64_data > INT64_MAX)
		return stk__fail(err, STK_CORRUPT, "a WAV whose ds64 chunk says that it has 2^63 bytes of samples or more");
	return STK_OK;
}

static enum stk_status read_chunks(struct wav *w, const struct stk_sound_bytes *bytes, struct stk_error *err)
{
	uint64_t at = RIFF_HEADER;
	for (int k = 0; at <= w->size && w->size - at >= CHUNK_HEADER && !(w->has_fmt && w->has_data); k++) {
		const uint8_t *p = NULL;
		uint8_t head[CHUNK_HEADER];
		if (k == MOST_CHUNKS)
			return stk__fail(err, STK_LIMIT, "a WAV with more than %d chunks before its samples", MOST_CHUNKS);
		enum stk_status s = bytes->read(bytes->user, at, CHUNK_HEADER, &p, err);
		if (s)
			return s;
		memcpy(head, p, sizeof head);
		if (w->has_64_bit_sizes && k == 0 && memcmp(head, "ds64", 4) != 0)
			return stk__fail(err, STK_CORRUPT, "an RF64 file whose first chunk is not ds64, which has its sizes");
		if ((s = read_chunk(w, bytes, head, at + CHUNK_HEADER, &at, err)))
			return s;
	}
	if (w->has_fmt && w->has_data)
		return STK_OK;
	return stk__fail(err, STK_CORRUPT, "a WAV without %s: its chunks end at byte %llu of %llu",
		w->has_fmt ? "samples (no data chunk)" : "a description of its samples (no fmt chunk)", (unsigned long long)at,
		(unsigned long long)w->size);
}

/* ---- format and size ---- */

/* Returns the name of the coding that has this number in Microsoft's registry; "unknown" if it is not in the table. For error messages. */
static const char *coding_name(uint32_t tag)
{
	static const struct {
		uint16_t tag;
		const char *name;
	} names[] = {{2, "Microsoft ADPCM"}, {0x11, "IMA ADPCM"}, {0x14, "G.723 ADPCM"}, {0x31, "GSM 6.10"}, {0x40, "G.721 ADPCM"},
		{0x50, "MPEG"}, {0x55, "MP3"}, {0xff, "AAC"}, {0x161, "WMA"}, {0x2000, "AC-3"}, {0x2001, "DTS"}, {0xf1ac, "FLAC"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].tag == tag)
			return names[i].name;
	return "unknown";
}

static enum stk_status find_coding(const struct wav *w, struct stk_sound_info *info, struct stk_error *err)
{
	static const enum stk_pcm widths[] = {STK_PCM_U8, STK_PCM_I16, STK_PCM_I24, STK_PCM_I32};
	bool recognised = false;
	switch (w->tag) {
	case TAG_PCM:
		info->coding = "pcm";
		recognised = w->bits >= 1 && w->bits <= 32;
		info->pcm = widths[recognised ? (w->bits - 1) / 8 : 0];
		break;
	case TAG_FLOAT:
		info->coding = "float";
		recognised = w->bits == 32 || w->bits == 64;
		info->pcm = w->bits == 64 ? STK_PCM_F64 : STK_PCM_F32;
		break;
	case TAG_ALAW:
	case TAG_MULAW:
		info->coding = w->tag == TAG_ALAW ? "alaw" : "mulaw";
		recognised = w->bits == 8 || w->bits == 0; /* a fmt chunk of less than 16 bytes does not state the bits */
		info->pcm = w->tag == TAG_ALAW ? STK_PCM_ALAW : STK_PCM_MULAW;
		break;
	default:
		return stk__fail(err, STK_UNSUPPORTED,
			"a WAV that holds %s (coding %u), which is not decoded; convert it: ffmpeg -i INPUT -c:a pcm_s16le output.wav",
			coding_name(w->tag), w->tag);
	}
	info->bits = w->bits ? (int32_t)w->bits : 8;
	if (!recognised)
		return stk__fail(
			err, STK_CORRUPT, "a WAV with %u bits a sample, which its coding (%s) does not have", w->bits, info->coding);
	return STK_OK;
}

static enum stk_status check_fmt(const struct wav *w, struct stk_sound_info *info, struct stk_error *err)
{
	enum stk_status s = find_coding(w, info, err);
	if (s)
		return s;
	if (w->channels == 0 || w->rate == 0 || w->rate > INT32_MAX)
		return stk__fail(err, STK_CORRUPT, "a WAV with %u channels at %u Hz", w->channels, w->rate);
	if (w->channels > STK_SOUND_MAX_CHANNELS)
		return stk__fail(err, STK_LIMIT, "a WAV with %u channels; at most %d are decoded", w->channels, STK_SOUND_MAX_CHANNELS);
	info->channels = (int32_t)w->channels;
	info->rate = (int32_t)w->rate;
	info->frame_bytes = w->channels * stk__pcm_bytes(info->pcm);
	if (w->block && w->block != info->frame_bytes)
		return stk__fail(err, STK_CORRUPT, "a WAV whose frames have %u bytes, which is not %u channels of %u bits", w->block,
			w->channels, w->bits);
	return STK_OK;
}

/* Guesses what follows a data chunk of size 0. Sets *follows to true if the next bytes look like the header of another chunk, or are too few for one; to
 * false if they must be samples. */
static enum stk_status chunk_follows(const struct wav *w, const struct stk_sound_bytes *bytes, bool *follows, struct stk_error *err)
{
	const uint8_t *p = NULL;
	uint64_t remaining = w->size - w->data;
	*follows = remaining < CHUNK_HEADER;
	if (*follows)
		return STK_OK;
	enum stk_status s = bytes->read(bytes->user, w->data, CHUNK_HEADER, &p, err);
	if (s)
		return s;
	*follows = stk__get32(p + 4, true) <= remaining - CHUNK_HEADER;
	for (int i = 0; i < 4; i++)
		*follows &= p[i] >= ' ' && p[i] < 0x7f;
	return STK_OK;
}

/* Sets info->begin, info->frames and info->missing. If `lenient` is false, returns STK_CORRUPT for a file that lacks frames, and for one whose header states
 * 0 bytes although samples follow. */
static enum stk_status count_frames(
	const struct wav *w, const struct stk_sound_bytes *bytes, bool lenient, struct stk_sound_info *info, struct stk_error *err)
{
	uint64_t remaining = w->size - w->data, size = w->header_size, frame = info->frame_bytes;
	bool unknown = !w->has_ds64 && (size == UNKNOWN_SIZE || (size / frame == SOX_UNKNOWN_SIZE / frame && remaining < size));
	if (size == 0 && remaining > 0) {
		bool follows;
		enum stk_status s = chunk_follows(w, bytes, &follows, err);
		if (s)
			return s;
		if (!follows && !lenient)
			return stk__fail(err, STK_CORRUPT,
				"a WAV whose header promises no samples, and %llu bytes follow it: the recorder did not finish the file. "
				"strict=False takes them as samples",
				(unsigned long long)remaining);
		unknown = !follows;
	}
	size = unknown || size > remaining ? remaining : size;
	info->begin = w->data;
	info->frames = (int64_t)(size / frame);
	info->missing = unknown ? 0 : (int64_t)(w->header_size / frame - size / frame);
	if (info->missing == 0 || lenient)
		return STK_OK;
	return stk__fail(err, STK_CORRUPT,
		"a truncated WAV: it ends at byte %llu, after %.3f s; its header promises %.3f s. strict=False decodes what is there",
		(unsigned long long)w->size, (double)info->frames / info->rate, (double)(w->header_size / frame) / info->rate);
}

enum stk_status stk__wav_peek(const struct stk_sound_bytes *bytes, bool lenient, struct stk_sound_info *info, struct stk_error *err)
{
	const uint8_t *p = NULL;
	struct wav w = {.size = bytes->size};
	enum stk_status s = bytes->read(bytes->user, 0, RIFF_HEADER, &p, err);
	if (s)
		return s;
	w.has_64_bit_sizes = memcmp(p, "RIFF", 4) != 0;
	if ((s = read_chunks(&w, bytes, err)) || (s = check_fmt(&w, info, err)))
		return s;
	return count_frames(&w, bytes, lenient, info, err);
}
