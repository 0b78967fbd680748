/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/tiff_unpack.h"

/* zlib then takes its input as const. */
#define ZLIB_CONST
#include <zlib.h>

enum { CODES = 4096, CLEAR = 256, END = 257, FIRST = 258 };

/* LZW: each code from FIRST on is the string of an earlier code and one byte more. */
struct lzw {
	uint16_t prefix[CODES], length[CODES];
	uint8_t last[CODES], first[CODES];
};

struct stk_tiff_unpacker {
	struct stk_arena *scratch;
	struct lzw lzw;
};

struct stk_tiff_unpacker *stk__tiff_unpacker_make(struct stk_arena *scratch)
{
	struct stk_tiff_unpacker *u = stk__arena_take(scratch, sizeof *u);
	if (!u)
		return NULL;
	u->scratch = scratch;
	for (int c = 0; c < CLEAR; c++) {
		u->lzw.length[c] = 1;
		u->lzw.first[c] = u->lzw.last[c] = (uint8_t)c;
	}
	return u;
}

/* ---- PackBits ---- */

/* Returns how many bytes were made. */
static size_t unpack_bits(const uint8_t *from, size_t size, uint8_t *to, size_t need)
{
	size_t at = 0, made = 0;
	while (at < size && made < need) {
		uint8_t head = from[at++];
		size_t n = head < 128 ? head + 1u : 257u - head;
		if (head == 128)
			continue;
		if (at == size)
			break;
		for (size_t i = 0; i < n && made < need && at < size; i++)
			to[made++] = from[head < 128 ? at++ : at];
		at += head >= 128;
	}
	return made;
}

/* ---- LZW ---- */

/* Codes of 9 to 12 bits, the most significant first. */
struct codes {
	const uint8_t *from;
	size_t size, at;
	uint32_t bits, held;
};

static bool take_code(struct codes *c, uint32_t width, uint32_t *code)
{
	while (c->held < width) {
		if (c->at == c->size)
			return false;
		c->bits = c->bits << 8 | c->from[c->at++];
		c->held += 8;
	}
	c->held -= width;
	*code = c->bits >> c->held & ((1u << width) - 1);
	return true;
}

/* Writes a code's string, from its end; what goes beyond `room` is left out. */
static void put_string(const struct lzw *l, uint32_t code, uint8_t *to, size_t room)
{
	for (size_t i = l->length[code]; i-- > 0; code = l->prefix[code])
		if (i < room)
			to[i] = l->last[code];
}

/* Returns how many bytes were made before the end of the data, or damage. */
static size_t unpack_lzw(struct lzw *l, const uint8_t *from, size_t size, uint8_t *to, size_t need)
{
	struct codes c = {.from = from, .size = size};
	uint32_t width = 9, next = FIRST, code, before = END; /* END: there is none */
	size_t made = 0;
	while (made < need && take_code(&c, width, &code) && code != END) {
		if (code == CLEAR) {
			width = 9;
			next = FIRST;
			before = END;
			continue;
		}
		if (before == END ? code >= CLEAR : code > next)
			return made;
		if (before != END && next < CODES) {
			l->prefix[next] = (uint16_t)before;
			l->length[next] = (uint16_t)(l->length[before] + 1);
			l->first[next] = l->first[before];
			l->last[next] = l->first[code == next ? before : code];
			next++;
		}
		put_string(l, code, to + made, need - made);
		made += l->length[code];
		before = code;
		width = next >= 2047 ? 12 : next >= 1023 ? 11 : next >= 511 ? 10 : 9; /* a code earlier than needed, as TIFF has it */
	}
	return made < need ? made : need;
}

/* ---- deflate ---- */

static voidpf zlib_take(voidpf arena, uInt items, uInt size)
{
	return stk__arena_take(arena, (size_t)items * size);
}

static void zlib_free(voidpf arena, voidpf address)
{
	(void)arena;
	(void)address;
}

/* zlib's verdict, which is an error for a wrong checksum too. */
static int unpack_deflate(struct stk_arena *scratch, const uint8_t *from, size_t size, uint8_t *to, size_t need, size_t *made)
{
	struct stk_arena_mark mark = stk__arena_mark(scratch);
	z_stream z = {.zalloc = zlib_take, .zfree = zlib_free, .opaque = scratch, .next_in = from, .avail_in = (uInt)size};
	z.next_out = to;
	z.avail_out = (uInt)need;
	int code = inflateInit(&z);
	if (code == Z_OK) {
		code = inflate(&z, Z_FINISH);
		inflateEnd(&z);
	}
	*made = need - z.avail_out;
	stk__arena_release(scratch, mark);
	return code;
}

enum stk_status stk__tiff_unpack(struct stk_tiff_unpacker *u, uint32_t compression, const uint8_t *from, size_t size, uint8_t *to,
	size_t need, struct stk_error *err)
{
	int code = Z_OK;
	size_t made;
	if (size > UINT32_MAX || need > UINT32_MAX) /* zlib counts in 32 bits */
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF with a strip or tile of 4 GiB or more; save it in smaller strips");
	if (compression == STK_TIFF_LZW && size >= 2 && from[0] == 0 && (from[1] & 1))
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of LZW as before revision 6.0; save it anew");
	if (compression == STK_TIFF_LZW)
		made = unpack_lzw(&u->lzw, from, size, to, need);
	else if (compression == STK_TIFF_PACKBITS)
		made = unpack_bits(from, size, to, need);
	else
		code = unpack_deflate(u->scratch, from, size, to, need, &made);
	if (code == Z_MEM_ERROR)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a TIFF's decompressor");
	if (made < need || code == Z_DATA_ERROR)
		return stk__fail(err, STK_CORRUPT, "a damaged TIFF: a strip or tile unpacks to %zu of %zu bytes%s", made, need,
			code == Z_DATA_ERROR ? ", and zlib finds it damaged" : "");
	return STK_OK;
}
