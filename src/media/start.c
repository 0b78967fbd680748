/* SPDX-License-Identifier: Apache-2.0 */
#include "media/start.h"

#include "media/unit_bits.h"

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

/* ---- H.264 ---- */

/* Facts about a packet of H.264 by its units so far. */
struct h264_packet {
	bool marks_tell;  /* the file marks only some packets, so that decoding can begin at the intra pictures that it marks */
	bool seen;        /* a slice was found */
	bool idr;         /* the first slice is of an IDR picture: no later picture refers to earlier ones */
	bool intra;       /* all slices so far are intra slices */
	int64_t recovery; /* number of pictures until all are whole, if a message in the packet states it, otherwise -1 */
};

/* Returns a size or a type in a unit with messages (SEI): the sum of bytes up to the first one that is not 255. */
static uint32_t take_sum(struct stk_unit_bits *b)
{
	uint32_t sum = 0, byte;
	do
		sum += byte = stk__take_bits(b, 8);
	while (byte == 255);
	return sum;
}

/* Returns the number of pictures (h264_packet.recovery) that a unit's first recovery point states, or -1 if the unit has no such message. */
static int64_t find_recovery(const uint8_t *unit, size_t size)
{
	enum { RECOVERY_POINT = 6, MOST_PICTURES = 1 << 16 };
	struct stk_unit_bits b = stk__unit_bits(unit + 1, size - 1);
	while (!b.ended) {
		const uint32_t type = take_sum(&b), bytes = take_sum(&b);
		if (type == RECOVERY_POINT && !b.ended) {
			const uint32_t pictures = stk__take_ue(&b);
			return b.ended || pictures >= MOST_PICTURES ? -1 : (int64_t)pictures;
		}
		for (uint32_t i = 0; i < bytes && !b.ended; i++)
			stk__take_bits(&b, 8);
	}
	return -1;
}

/* Notes what a unit says about the packet. Returns whether the units after it need not be read. */
static bool note_unit(void *user, const uint8_t *unit, size_t size)
{
	enum { SLICE = 1, IDR_SLICE = 5, MESSAGES = 6, KINDS = 5, INTRA = 2, SWITCHING_INTRA = 4 };
	struct h264_packet *p = user;
	const int type = unit[0] & 31;
	if (type == MESSAGES && !p->seen && p->recovery < 0)
		p->recovery = find_recovery(unit, size);
	if (type != SLICE && type != IDR_SLICE)
		return false;
	struct stk_unit_bits b = stk__unit_bits(unit + 1, size - 1);
	stk__take_ue(&b); /* first_mb_in_slice */
	const uint32_t kind = stk__take_ue(&b) % KINDS;
	if (b.ended)
		return true;
	p->idr = !p->seen && type == IDR_SLICE;
	p->seen = true;
	p->intra = p->intra && (kind == INTRA || kind == SWITCHING_INTRA);
	return p->idr || p->recovery >= 0 || !p->intra || p->marks_tell;
}

/* Like libavcodec, begins at IDR pictures and at recovery points. Pictures after another intra picture may refer to those before it, and libavcodec may not notice
 * that these are missing. So begins there only if the file marks the picture, and its marks mean something. */
static enum stk_start start_of_h264(const struct stk_video_index *x, const struct stk_annex_b *units, const uint8_t *data, size_t size)
{
	struct h264_packet p = {.marks_tell = x->table.key_count < x->packets.count, .intra = true, .recovery = -1};
	stk__annex_b_each_of_packet(units, data, size, note_unit, &p);
	if (!p.seen || p.idr || p.recovery == 0)
		return STK_START_HERE;
	if (p.recovery > 0)
		return STK_START_LATER;
	return !p.intra ? STK_START_NONE : p.marks_tell ? STK_START_HERE : STK_START_PICTURE;
}

static bool begins(enum AVCodecID codec, const struct stk_annex_b *units, const uint8_t *data, size_t size)
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

enum stk_start stk__packet_start(const struct stk_video_index *x, const struct stk_annex_b *units, const uint8_t *data, size_t size)
{
	const enum AVCodecID codec = x->parameters->codec_id;
	if (codec == AV_CODEC_ID_H264)
		return start_of_h264(x, units, data, size);
	return begins(codec, units, data, size) ? STK_START_HERE : STK_START_NONE;
}
