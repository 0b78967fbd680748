/* SPDX-License-Identifier: Apache-2.0 */
#include "media/mjpeg.h"

#include <string.h>

enum { SOF0 = 0xc0, SOF2 = 0xc2, DHT = 0xc4, RST0 = 0xd0, EOI = 0xd9, SOS = 0xda, DQT = 0xdb, DRI = 0xdd, APP0 = 0xe0, COM = 0xfe };

struct walk {
	struct stk_mjpeg out;
	int height;
	unsigned quantisation, huffman; /* bit sets of the tables that the packet defines; Huffman tables for AC begin at bit 4 */
	unsigned uses;                  /* bit set of the quantisation tables that the picture uses */
	bool begun, defines;            /* whether the header of the picture, and a segment with Huffman tables, were found */
};

static bool has_prefix(const uint8_t *at, size_t size, const char *text)
{
	return size >= strlen(text) && memcmp(at, text, strlen(text)) == 0;
}

/* Adds the tables that a segment defines to the walk's set. Returns false if they are invalid. */
static bool note_tables(struct walk *w, int marker, const uint8_t *at, size_t size)
{
	enum { COUNTS = 16, COEFFICIENTS = 64, MOST_TABLES = 4 };
	while (size > 0) {
		const unsigned high = at[0] >> 4, table = at[0] & 15;
		size_t length = marker == DQT ? 1 + (size_t)COEFFICIENTS * (high ? 2 : 1) : 1 + COUNTS;
		if (high > 1 || table >= MOST_TABLES || length > size)
			return false;
		for (int i = 0; marker == DHT && i < COUNTS; i++)
			length += at[1 + i];
		if (length > size)
			return false;
		if (marker == DQT)
			w->quantisation |= 1U << table;
		else
			w->huffman |= 1U << (table + 4 * high);
		at += length;
		size -= length;
	}
	return true;
}

static bool note_frame(struct walk *w, int marker, const uint8_t *at, size_t size)
{
	enum { FIXED = 6, EACH = 3 };
	if (w->begun || size < FIXED || size < FIXED + (size_t)EACH * at[5])
		return false;
	w->begun = true;
	for (int i = 0; i < at[5]; i++)
		w->uses |= 1U << (at[FIXED + EACH * i + 2] & 31);
	/* Progressive pictures have further scans, whose tables need not be defined before the first one. */
	return marker != SOF2 && (at[1] << 8 | at[2]) == w->height;
}

/* Returns whether the packet defines all Huffman tables that its first scan uses. */
static bool has_huffman(const struct walk *w, const uint8_t *at, size_t size)
{
	if (size < 1 || size < 1 + 2 * (size_t)at[0])
		return false;
	for (int i = 0; i < at[0]; i++) {
		const unsigned tables = at[2 + 2 * i], dc = tables >> 4, ac = tables & 15;
		if (dc > 3 || ac > 3 || !(w->huffman >> dc & 1) || !(w->huffman >> (4 + ac) & 1))
			return false;
	}
	return true;
}

/* Notes a segment before the first scan. Returns false if the picture may depend on state of a context, or may change it for later packets. */
static bool note_segment(struct walk *w, int marker, const uint8_t *at, size_t size)
{
	switch (marker) {
	case SOF0:
	case SOF0 + 1:
	case SOF2:
		return note_frame(w, marker, at, size);
	case DHT:
		w->defines = true;
		return note_tables(w, marker, at, size);
	case DQT:
		return note_tables(w, marker, at, size);
	case DRI:
		return true;
	case APP0:
		return has_prefix(at, size, "JFIF") || has_prefix(at, size, "AVI1");
	case COM:
		return has_prefix(at, size, "Lavc");
	default:
		return false;
	}
}

struct stk_mjpeg stk__mjpeg_read(const uint8_t *data, size_t size, int height)
{
	struct walk w = {.out.kind = STK_MJPEG_OWN, .height = height};
	size_t at = 0;
	while (size - at >= 4) {
		const int marker = data[at + 1];
		if (data[at] != 0xff || marker < SOF0 || marker > COM) { /* like libavcodec, skips bytes between segments */
			at++;
			continue;
		}
		at += 2;
		if (marker >= RST0 && marker <= EOI)
			continue;
		const size_t length = (size_t)(data[at] << 8 | data[at + 1]);
		if (length < 2 || length > size - at)
			break;
		if (marker == SOS && !w.begun)
			break;
		if (marker == SOS) {
			w.out.lacks_quantisation = w.uses & ~w.quantisation;
			if (w.out.lacks_quantisation || (w.defines && !has_huffman(&w, data + at + 2, length - 2)))
				w.out.kind = STK_MJPEG_OTHER;
			else if (!w.defines && w.out.kind == STK_MJPEG_OWN)
				w.out.kind = STK_MJPEG_STANDARD;
			return w.out;
		}
		if (!note_segment(&w, marker, data + at + 2, length - 2))
			w.out.kind = STK_MJPEG_OTHER;
		at += length;
	}
	return (struct stk_mjpeg){STK_MJPEG_OTHER, false};
}
