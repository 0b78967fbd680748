/* SPDX-License-Identifier: Apache-2.0 */
#include "media/start.h"

#include <string.h>

/* Returns the address after the first start code 00 00 01 `kind`. Returns NULL without such a code, and if fewer than `more` bytes follow it. */
static const uint8_t *find_code(const uint8_t *data, size_t size, uint8_t kind, size_t more)
{
	const uint8_t code[] = {0, 0, 1, kind};
	const uint8_t *found = size ? memmem(data, size, code, sizeof code) : NULL;
	return found && (size_t)(data + size - found) >= sizeof code + more ? found + sizeof code : NULL;
}

static bool begins_mpeg4(const uint8_t *data, size_t size)
{
	const uint8_t *picture = find_code(data, size, 0xb6, 1);
	return !picture || picture[0] >> 6 == 0;
}

static bool begins_mpeg2(const uint8_t *data, size_t size)
{
	enum { INTRA = 1 };
	const uint8_t *picture = find_code(data, size, 0, 2);
	return !picture || (picture[1] >> 3 & 7) == INTRA;
}

static bool begins_vp9(const uint8_t *data, size_t size)
{
	if (size == 0 || data[0] >> 6 != 2)
		return true;
	/* After the marker and the two bits of the profile, profile 3 has a reserved bit. Then follow show_existing_frame and frame_type, which are 0 in key frames. */
	const int shift = (data[0] >> 4 & 3) == 3 ? 1 : 2;
	return (data[0] >> shift & 3) == 0;
}

/* Reads a number in LEB128. Returns the end of its bytes, or NULL if the data ends in it. */
static const uint8_t *read_leb128(const uint8_t *at, const uint8_t *end, uint64_t *out)
{
	*out = 0;
	for (int i = 0; i < 8 && at < end; i++) {
		*out |= (uint64_t)(*at & 127) << (7 * i);
		if (!(*at++ & 128))
			return at;
	}
	return NULL;
}

static bool begins_av1(const uint8_t *data, size_t size)
{
	enum { SEQUENCE = 1, FRAME_HEADER = 3, FRAME = 6, EXTENSION = 4, HAS_SIZE = 2, REDUCED = 8 };
	const uint8_t *at = data, *end = data + size;
	while (at && at < end) {
		const int type = at[0] >> 3 & 15;
		const bool sized = at[0] & HAS_SIZE;
		uint64_t unit = 0;
		at += at[0] & EXTENSION ? 2 : 1;
		at = sized && at < end ? read_leb128(at, end, &unit) : at;
		if (!at || at >= end)
			return true;
		unit = sized ? unit : (uint64_t)(end - at);
		if (unit > (uint64_t)(end - at))
			return true;
		if (type == SEQUENCE && unit > 0 && at[0] & REDUCED) /* all frames of such a stream are key frames */
			return true;
		if ((type == FRAME || type == FRAME_HEADER) && unit > 0)
			return at[0] >> 5 == 0; /* show_existing_frame, and frame_type, which is 0 for key frames */
		at += unit;
	}
	return true;
}

bool stk__packet_begins(enum AVCodecID codec, const struct stk_annex_b *units, const uint8_t *data, size_t size)
{
	switch (codec) {
	case AV_CODEC_ID_HEVC:
		return stk__annex_b_begins(units, data, size);
	case AV_CODEC_ID_MPEG4:
		return begins_mpeg4(data, size);
	case AV_CODEC_ID_MPEG1VIDEO:
	case AV_CODEC_ID_MPEG2VIDEO:
		return begins_mpeg2(data, size);
	case AV_CODEC_ID_VP8:
		return size == 0 || !(data[0] & 1);
	case AV_CODEC_ID_VP9:
		return begins_vp9(data, size);
	case AV_CODEC_ID_AV1:
		return begins_av1(data, size);
	default:
		return true;
	}
}
