/* SPDX-License-Identifier: Apache-2.0 */
#include "media/annex_b.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

enum { START = 4 }; /* size of a start code in bytes */

/* Reads bytes from front to back. After the end it sets `ended` and returns zeros. */
struct reader {
	const uint8_t *at;
	size_t left;
	bool ended;
};

static uint32_t read_bits(struct reader *r, int n)
{
	uint32_t v = 0;
	for (int i = 0; i < n; i++) {
		v = v << 8 | (r->left ? *r->at : 0);
		r->ended |= !r->left;
		r->at += !!r->left;
		r->left -= !!r->left;
	}
	return v;
}

static uint8_t *put_unit(uint8_t *to, const uint8_t *unit, size_t size)
{
	static const uint8_t start[START] = {0, 0, 0, 1};
	memcpy(to, start, START);
	memcpy(to + START, unit, size);
	return to + START + size;
}

/* Copies `count` units, each of which is preceded by its length in 16 bits, and writes start codes instead of the lengths. Returns the end of the written
 * bytes; r->ended is set if a unit exceeds the data. */
static uint8_t *put_sets(struct reader *r, uint32_t count, uint8_t *to)
{
	for (uint32_t i = 0; i < count && !r->ended; i++) {
		const uint32_t size = read_bits(r, 2);
		if (size > r->left) {
			r->ended = true;
			break;
		}
		to = put_unit(to, r->at, size);
		r->at += size;
		r->left -= size;
	}
	return to;
}

static uint8_t *put_avcc(struct reader *r, int *length, uint8_t *to)
{
	read_bits(r, 4); /* skips version, profile, compatibility and level */
	*length = (int)(read_bits(r, 1) & 3) + 1;
	to = put_sets(r, read_bits(r, 1) & 31, to);
	return put_sets(r, read_bits(r, 1), to);
}

static uint8_t *put_hvcc(struct reader *r, int *length, uint8_t *to)
{
	enum { BEFORE_LENGTH = 21 };
	read_bits(r, BEFORE_LENGTH);
	*length = (int)(read_bits(r, 1) & 3) + 1;
	const uint32_t kinds = read_bits(r, 1);
	for (uint32_t i = 0; i < kinds && !r->ended; i++) {
		read_bits(r, 1); /* the type of the units that follow */
		to = put_sets(r, read_bits(r, 2), to);
	}
	return to;
}

static bool has_start_code(const uint8_t *header, size_t size)
{
	return size >= 3 && !header[0] && !header[1] && (header[2] == 1 || (size >= START && !header[2] && header[3] == 1));
}

bool stk__annex_b_each_unit(const uint8_t *at, size_t size, bool (*on_unit)(void *user, const uint8_t *unit, size_t size), void *user)
{
	enum { CODE = 3 };
	size_t begin = size, i = 0;
	for (; i + CODE <= size; i++)
		if (!at[i] && !at[i + 1] && at[i + 2] == 1) {
			if (begin < i && on_unit(user, at + begin, i - begin))
				return true;
			i += CODE - 1;
			begin = i + 1;
		}
	return begin < size && on_unit(user, at + begin, size - begin);
}

/* If the unit is a sequence parameter set of HEVC, raises the int at `user` to the set's number of temporal layers. Returns false, so that all units are read:
 * the sets of a stream may differ. */
static bool find_layers(void *user, const uint8_t *unit, size_t size)
{
	enum { SPS = 33, STREAM_LAYER = 0x1f8 }; /* sets of other layers of the stream, such as a second view, have another form */
	int *layers = user;
	if (size < 3 || (unit[0] >> 1 & 63) != SPS || (unit[0] << 8 | unit[1]) & STREAM_LAYER)
		return false;
	const int found = (unit[2] >> 1 & 7) + 1;
	*layers = found > *layers ? found : *layers;
	return false;
}

enum stk_status stk__annex_b_create(
	enum stk_unit_codec codec, const uint8_t *header, size_t size, struct stk_annex_b *out, struct stk_error *err)
{
	*out = (struct stk_annex_b){.codec = codec};
	if (size == 0)
		return STK_OK;
	/* In the header each unit is preceded by two bytes of length, which become a start code of four bytes. So the result has at most twice the size. */
	if (!(out->head = stk__alloc(2 * size + START)))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a video's parameter sets");
	if (has_start_code(header, size)) {
		memcpy(out->head, header, size);
		out->head_size = size;
		if (codec == STK_UNITS_HEVC)
			stk__annex_b_each_unit(out->head, out->head_size, find_layers, &out->layers);
		return STK_OK;
	}
	struct reader r = {header, size, false};
	uint8_t *end = codec == STK_UNITS_HEVC ? put_hvcc(&r, &out->length, out->head) : put_avcc(&r, &out->length, out->head);
	out->head_size = (size_t)(end - out->head);
	if (!r.ended) {
		if (codec == STK_UNITS_HEVC)
			stk__annex_b_each_unit(out->head, out->head_size, find_layers, &out->layers);
		return STK_OK;
	}
	stk__annex_b_free(out);
	return stk__fail(err, STK_CORRUPT, "the parameter sets in the file's header are cut short");
}

void stk__annex_b_free(struct stk_annex_b *a)
{
	stk__free(a->head);
	*a = (struct stk_annex_b){0};
}

size_t stk__annex_b_capacity(const struct stk_annex_b *a, size_t size)
{
	/* A packet grows most if its units are empty: each then consists only of its length, which becomes a start code. */
	return a->length ? size / (size_t)a->length * START + size : size;
}

/* Returns whether a unit contains bytes that both codecs forbid: 00 00 00, 00 00 01 or 00 00 02, except for zeros at its end. A missing part of a file often
 * appears as a block of zeros. */
static bool has_zero_run(const uint8_t *unit, size_t size)
{
	enum { MOST_ZEROS = 4 }; /* maximum number of zeros that may follow a unit, since some writers leave a few */
	for (int i = 0; i < MOST_ZEROS && size && !unit[size - 1]; i++)
		size--;
	for (size_t i = 2; i<size; i += unit[i]> 2 ? 3 : 1)
		if (unit[i] <= 2 && !unit[i - 1] && !unit[i - 2])
			return true;
	return false;
}

enum stk_status stk__annex_b_convert(
	const struct stk_annex_b *a, const uint8_t *packet, size_t size, uint8_t *to, size_t *written, struct stk_error *err)
{
	struct reader r = {packet, size, false};
	uint8_t *end = to;
	*written = size;
	if (!a->length) {
		if (size)
			memcpy(to, packet, size);
		return STK_OK;
	}
	while (r.left) {
		const uint32_t unit = read_bits(&r, a->length);
		if (r.ended || unit > r.left)
			return stk__fail(err, STK_CORRUPT, "a unit of the packet is longer than the packet");
		if (has_zero_run(r.at, unit))
			return stk__fail(err, STK_CORRUPT, "a unit of the packet holds bytes that are not allowed");
		end = put_unit(end, r.at, unit);
		r.at += unit;
		r.left -= unit;
	}
	*written = (size_t)(end - to);
	return STK_OK;
}

enum { HEVC_SLICES = 32 }; /* units of lower types are slices */

struct needs {
	struct stk_annex_b *a;
	bool needed, seen; /* needed: other pictures may refer to the picture; seen: one of its slices was found */
	bool sets;         /* the packet holds parameter sets, which later pictures may need */
};

/* Sets n->seen if the unit is a slice, and n->needed if other pictures may refer to the slice's picture. (In HEVC, the type of a slice says whether a
 * picture of the same temporal layer refers to it.) Returns whether it is a slice. */
static bool note_slice(void *user, const uint8_t *unit, size_t size)
{
	enum { H264_SLICES = 5, HEVC_PICTURE_SET = 34, HEVC_LAST_SUB_LAYER = 15 };
	struct needs *n = user;
	if (n->a->codec == STK_UNITS_H264) {
		const int type = unit[0] & 31;
		if (type < 1 || type > H264_SLICES)
			return false;
		n->needed = unit[0] >> 5 & 3;
	} else {
		const int type = unit[0] >> 1 & 63, layer = size > 1 ? unit[1] & 7 : 0;
		n->sets |= type >= HEVC_SLICES && type <= HEVC_PICTURE_SET;
		if (type >= HEVC_SLICES)
			return find_layers(&n->a->layers, unit, size);
		n->needed = type >= HEVC_LAST_SUB_LAYER || type % 2 != 0 || layer != n->a->layers;
	}
	return n->seen = true; /* true ends the search: other slices of the picture have the same type */
}

void stk__annex_b_each_of_packet(const struct stk_annex_b *a, const uint8_t *packet, size_t size,
	bool (*on_unit)(void *user, const uint8_t *unit, size_t size), void *user)
{
	struct reader r = {packet, size, false};
	if (!a->length)
		stk__annex_b_each_unit(packet, size, on_unit, user);
	while (a->length && r.left) {
		const uint32_t unit = read_bits(&r, a->length);
		if (unit > r.left || (unit > 0 && on_unit(user, r.at, unit)))
			break;
		r.at += unit;
		r.left -= unit;
	}
}

bool stk__annex_b_unneeded(struct stk_annex_b *a, const uint8_t *packet, size_t size)
{
	struct needs n = {.a = a};
	stk__annex_b_each_of_packet(a, packet, size, note_slice, &n);
	return n.seen && !n.needed && !n.sets;
}

/* Sets the int at `user` to the type of the unit, if it is a slice of HEVC, and returns whether it is one. */
static bool find_slice(void *user, const uint8_t *unit, size_t size)
{
	const int type = unit[0] >> 1 & 63;
	(void)size;
	if (type < HEVC_SLICES)
		*(int *)user = type;
	return type < HEVC_SLICES;
}

bool stk__annex_b_begins(const struct stk_annex_b *a, const uint8_t *packet, size_t size)
{
	enum { FIRST_IRAP = 16, LAST_IRAP = 23 };
	int type = FIRST_IRAP;
	stk__annex_b_each_of_packet(a, packet, size, find_slice, &type);
	return type >= FIRST_IRAP && type <= LAST_IRAP;
}
