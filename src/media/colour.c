/* SPDX-License-Identifier: Apache-2.0 */
#include "media/colour.h"

/* Numbers of conversion matrices in H.273. */
enum { RGB = 0, BT709 = 1, UNSPECIFIED = 2, RESERVED = 3, FCC = 4, BT470BG = 5, SMPTE170M = 6, SMPTE240M = 7, BT2020 = 9 };

bool stk__colour_matrix(int matrix, int bits, bool full, struct stk_yuv_matrix *out)
{
	switch (matrix) {
	case BT709:
		*out = stk__yuv_matrix(.2126, .0722, full, bits);
		return true;
	case BT2020:
		*out = stk__yuv_matrix(.2627, .0593, full, bits);
		return true;
	case FCC:
		*out = stk__yuv_matrix(.30, .11, full, bits);
		return true;
	case SMPTE240M:
		*out = stk__yuv_matrix(.212, .087, full, bits);
		return true;
	case RGB: /* only gray pictures get here; colour pictures in RGB are not converted */
	case UNSPECIFIED:
	case RESERVED:
	case BT470BG:
	case SMPTE170M:
		*out = stk__yuv_matrix(.299, .114, full, bits);
		return true;
	default:
		return false;
	}
}

/* ---- VP8 ---- */

/* The arithmetic decoder for VP8's headers. All bits that this file reads have probability one half. */
struct bools {
	const uint8_t *at;
	size_t left;
	uint32_t value, range;
	int bits; /* number of bits by which `value` has been shifted since the last byte */
};

static uint32_t next_byte(struct bools *b)
{
	if (!b->left)
		return 0;
	b->left--;
	return *b->at++;
}

static bool next_bool(struct bools *b)
{
	const uint32_t split = 1 + ((b->range - 1) * 128 >> 8);
	const bool bit = b->value >= split << 8;
	b->value -= bit ? split << 8 : 0;
	b->range = bit ? b->range - split : split;
	for (; b->range < 128; b->range <<= 1) {
		b->value <<= 1;
		if (++b->bits == 8) {
			b->bits = 0;
			b->value |= next_byte(b);
		}
	}
	return bit;
}

bool stk__colour_of_vp8(const uint8_t *packet, size_t size, int *matrix, bool *full)
{
	enum { HEADER = 10, START_CODE = 3 };
	static const uint8_t start[] = {0x9d, 0x01, 0x2a};
	if (size <= HEADER || packet[0] & 1)
		return false;
	for (int i = 0; i < 3; i++)
		if (packet[START_CODE + i] != start[i])
			return false;
	struct bools b = {packet + HEADER, size - HEADER, 0, 255, 0};
	b.value = next_byte(&b) << 8;
	b.value |= next_byte(&b);
	next_bool(&b); /* skips the colour space, of which VP8 defines only one */
	*matrix = BT470BG;
	*full = next_bool(&b); /* this bit says that decoded values need no clamping; FFmpeg reads it as full range, as is done here */
	return true;
}

/* ---- VP9 ---- */

struct bits {
	const uint8_t *from;
	size_t size, at; /* size and position, counted in bits */
};

static uint32_t next_bits(struct bits *b, int n)
{
	uint32_t v = 0;
	for (int i = 0; i < n; i++, b->at++)
		v = v << 1 | (b->at < b->size ? b->from[b->at / 8] >> (7 - b->at % 8) & 1 : 0);
	return v;
}

bool stk__colour_of_vp9(const uint8_t *packet, size_t size, int *matrix, bool *full)
{
	enum { FRAME_MARKER = 2, SYNC = 0x498342, VP9_RGB = 7 };
	static const uint8_t matrices[] = {UNSPECIFIED, BT470BG, BT709, SMPTE170M, SMPTE240M, BT2020, RESERVED};
	struct bits b = {packet, size * 8, 0};
	if (next_bits(&b, 2) != FRAME_MARKER)
		return false;
	uint32_t profile = next_bits(&b, 1);
	profile |= next_bits(&b, 1) << 1;
	if (profile == 3)
		next_bits(&b, 1); /* reserved */
	/* show_existing_frame and frame_type are 0 for a key frame; show_frame and error_resilient_mode follow. */
	if (next_bits(&b, 1) || next_bits(&b, 1) || (next_bits(&b, 2), next_bits(&b, 24)) != SYNC)
		return false;
	if (profile >= 2)
		next_bits(&b, 1); /* skips the bit depth: 1 stands for 12 bits per sample, 0 for 10 */
	const uint32_t space = next_bits(&b, 3);
	if (space == VP9_RGB)
		return false;
	*matrix = matrices[space];
	*full = next_bits(&b, 1);
	return b.at <= b.size;
}
