/* SPDX-License-Identifier: Apache-2.0 */
#include "media/headers.h"

#include "base/xxhash.h"

/* Returns the offset of the next start code 00 00 01 at or after `at`, or `size` if no further code is followed by a byte. */
static size_t next_code(const uint8_t *data, size_t size, size_t at)
{
	enum { CODE = 3 };
	for (; size - at > CODE; at += data[at + 2] > 1 ? CODE : 1)
		if (!data[at] && !data[at + 1] && data[at + 2] == 1)
			return at;
	return size;
}

/* Returns the number of bytes before the packet's first start code of one of two kinds. */
static size_t bytes_before(const uint8_t *data, size_t size, int kind, int other)
{
	size_t at = next_code(data, size, 0);
	while (at < size && data[at + 3] != kind && data[at + 3] != other)
		at = next_code(data, size, at + 3);
	return at;
}

struct sets {
	enum stk_unit_codec codec;
	uint64_t hash;
};

/* Adds a parameter set to the hash of struct sets. Returns whether the unit is a slice. */
static bool note_unit(void *user, const uint8_t *unit, size_t size)
{
	struct sets *s = user;
	enum { LAST_SLICE = 5, SPS = 7, PPS = 8, SPS_EXTENSION = 13, SUBSET_SPS = 15, HEVC_VPS = 32, HEVC_PPS = 34 };
	const int h264 = unit[0] & 31, hevc = unit[0] >> 1 & 63;
	const bool is_hevc = s->codec == STK_UNITS_HEVC;
	const bool is_set =
		is_hevc ? hevc >= HEVC_VPS && hevc <= HEVC_PPS : h264 == SPS || h264 == PPS || h264 == SPS_EXTENSION || h264 == SUBSET_SPS;
	if (is_set)
		s->hash = stk__xxh64(unit, size, s->hash + 1);
	return is_hevc ? hevc < HEVC_VPS : h264 >= 1 && h264 <= LAST_SLICE;
}

/* Returns a hash of the parameter sets before the packet's first slice. (None may follow it.) Does not read that slice, which takes most of the packet. */
static uint64_t hash_sets(const struct stk_annex_b *units, const uint8_t *data, size_t size)
{
	enum { CODE = 3 };
	struct sets s = {.codec = units->codec};
	bool ended = false;
	if (units->length) {
		stk__annex_b_each_of_packet(units, data, size, note_unit, &s);
		return s.hash;
	}
	for (size_t at = next_code(data, size, 0), end; at < size && !ended; at = end) {
		const uint8_t *unit = data + at + CODE;
		ended = note_unit(&(struct sets){.codec = s.codec}, unit, 1);
		end = ended ? size : next_code(data, size, at + CODE);
		note_unit(&s, unit, (size_t)(data + end - unit));
	}
	return s.hash;
}

bool stk__packet_headers(enum AVCodecID codec, const struct stk_annex_b *units, const uint8_t *data, size_t size, uint64_t *hash)
{
	enum { MPEG_PICTURE = 0, MPEG_GROUP = 0xb8, MPEG4_PICTURE = 0xb6, MPEG4_GROUP = 0xb3, THEORA_HEADER = 0x80 };
	size_t headers = 0;
	*hash = 0;
	switch (codec) {
	case AV_CODEC_ID_H264:
	case AV_CODEC_ID_HEVC:
		*hash = units ? hash_sets(units, data, size) : 0;
		return units;
	case AV_CODEC_ID_MPEG1VIDEO:
	case AV_CODEC_ID_MPEG2VIDEO:
		headers = bytes_before(data, size, MPEG_PICTURE, MPEG_GROUP);
		break;
	case AV_CODEC_ID_MPEG4:
		headers = bytes_before(data, size, MPEG4_PICTURE, MPEG4_GROUP);
		break;
	case AV_CODEC_ID_THEORA:
		return size == 0 || !(data[0] & THEORA_HEADER);
	case AV_CODEC_ID_VP8:
	case AV_CODEC_ID_VP9:
	case AV_CODEC_ID_AV1:
		return true; /* a key frame repeats all headers */
	case AV_CODEC_ID_PRORES:
	case AV_CODEC_ID_DNXHD:
	case AV_CODEC_ID_JPEG2000:
	case AV_CODEC_ID_PNG:
	case AV_CODEC_ID_HUFFYUV:
	case AV_CODEC_ID_FFVHUFF:
	case AV_CODEC_ID_UTVIDEO:
	case AV_CODEC_ID_V210:
	case AV_CODEC_ID_RAWVIDEO:
		return true; /* each packet repeats all headers, or all are in the file's header */
	default:
		return false;
	}
	*hash = headers > 0 ? stk__xxh64(data, headers, 1) : 0;
	return true;
}
