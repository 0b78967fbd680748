/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/tiff_unpack.h"

/* Makes zlib.h declare the input as const. */
#define ZLIB_CONST
#include <zlib.h>

enum { CODES = 4096, CLEAR = 256, END = 257, FIRST = 258 };
enum { PIECE = 4 << 20 }; /* maximum number of bytes that zlib unpacks between two checks for cancellation */

/* The dictionary of LZW: each code from FIRST on stands for the string of an earlier code (prefix) and one more byte (last). */
struct lzw {
	uint16_t prefix[CODES], length[CODES];
	uint8_t last[CODES], first[CODES];
};

struct stk_tiff_unpacker {
	struct stk_arena *scratch;
	const struct stk_cancel *cancel;
	/* Numbers of bytes: in the file; read for chunks so far, where bytes that chunks share count for each; unpacked so far. */
	uint64_t size, read, written;
	struct lzw lzw;
};

struct stk_tiff_unpacker *stk__tiff_unpacker_make(struct stk_arena *scratch, size_t size, const struct stk_cancel *cancel)
{
	struct stk_tiff_unpacker *u = stk__arena_take(scratch, sizeof *u);
	if (!u)
		return NULL;
	u->scratch = scratch;
	u->cancel = cancel;
	u->size = size;
	u->read = u->written = 0;
	for (int c = 0; c < CLEAR; c++) {
		u->lzw.length[c] = 1;
		u->lzw.first[c] = u->lzw.last[c] = (uint8_t)c;
	}
	return u;
}

/* ---- PackBits ---- */

/* Unpacks PackBits until `to` is full, the data end, or the work is cancelled. Returns the number of bytes written. */
static size_t unpack_bits(struct stk_tiff_unpacker *u, const uint8_t *from, size_t size, uint8_t *to, size_t capacity)
{
	size_t at = 0, written = 0;
	while (at < size && written < capacity && !stk__cancelled(u->cancel)) {
		uint8_t head = from[at++];
		size_t n = head < 128 ? head + 1u : 257u - head;
		if (head == 128)
			continue;
		if (at == size)
			break;
		for (size_t i = 0; i < n && written < capacity && at < size; i++)
			to[written++] = from[head < 128 ? at++ : at];
		at += head >= 128;
	}
	u->read += at;
	return written;
}

/* ---- LZW ---- */

/* A reader of codes of 9 to 12 bits, the most significant bit first. */
struct codes {
	const uint8_t *from;
	size_t size, at;
	uint32_t bits, n_bits;
};

static bool take_code(struct codes *c, uint32_t width, uint32_t *code)
{
	while (c->n_bits < width) {
		if (c->at == c->size)
			return false;
		c->bits = c->bits << 8 | c->from[c->at++];
		c->n_bits += 8;
	}
	c->n_bits -= width;
	*code = c->bits >> c->n_bits & ((1u << width) - 1);
	return true;
}

/* Writes a code's string to `to`, without the bytes beyond `capacity`. */
static void put_string(const struct lzw *l, uint32_t code, uint8_t *to, size_t capacity)
{
	for (size_t i = l->length[code]; i-- > 0; code = l->prefix[code])
		if (i < capacity)
			to[i] = l->last[code];
}

/* Unpacks LZW. Returns the number of bytes written to `to` before the data ended or turned out to be damaged. */
static size_t unpack_lzw(struct stk_tiff_unpacker *u, const uint8_t *from, size_t size, uint8_t *to, size_t capacity)
{
	struct lzw *l = &u->lzw;
	struct codes c = {.from = from, .size = size};
	uint32_t width = 9, next = FIRST, code, previous = END; /* END stands for "no previous code" */
	size_t written = 0;
	for (uint32_t n = 1; written < capacity && take_code(&c, width, &code) && code != END; n++) {
		if (n % CODES == 0 && stk__cancelled(u->cancel))
			break;
		if (code == CLEAR) {
			width = 9;
			next = FIRST;
			previous = END;
			continue;
		}
		if (previous == END ? code >= CLEAR : code > next)
			break;
		if (previous != END && next < CODES) {
			l->prefix[next] = (uint16_t)previous;
			l->length[next] = (uint16_t)(l->length[previous] + 1);
			l->first[next] = l->first[previous];
			l->last[next] = l->first[code == next ? previous : code];
			next++;
		}
		put_string(l, code, to + written, capacity - written);
		written += l->length[code];
		previous = code;
		/* In TIFF, codes become longer one code earlier than necessary. */
		width = next >= 2047 ? 12 : next >= 1023 ? 11 : next >= 511 ? 10 : 9;
	}
	u->read += c.at;
	return written < capacity ? written : capacity;
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

/* Unpacks deflate. Returns zlib's status, which is also an error if the checksum is wrong. *written: set to the number of bytes written. */
static int unpack_deflate(struct stk_tiff_unpacker *u, const uint8_t *from, size_t size, uint8_t *to, size_t capacity, size_t *written)
{
	struct stk_arena_mark mark = stk__arena_mark(u->scratch);
	z_stream z = {.zalloc = zlib_take, .zfree = zlib_free, .opaque = u->scratch, .next_in = from, .avail_in = (uInt)size};
	z.next_out = to;
	int code = inflateInit(&z);
	for (size_t left = capacity; code == Z_OK && !stk__cancelled(u->cancel);) {
		z.avail_out = (uInt)(left < PIECE ? left : PIECE);
		left -= z.avail_out;
		code = inflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
		if (!left)
			break;
	}
	inflateEnd(&z);
	*written = (size_t)(z.next_out - to);
	u->read += z.total_in;
	stk__arena_release(u->scratch, mark);
	return code;
}

enum stk_status stk__tiff_unpack(struct stk_tiff_unpacker *u, uint32_t compression, const uint8_t *from, size_t size, uint8_t *to,
	size_t need, struct stk_error *err)
{
	int code = Z_OK;
	size_t written;
	if (size > UINT32_MAX || need > UINT32_MAX) /* zlib's counters have 32 bits */
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF with a strip or tile of 4 GiB or more; save it in smaller strips");
	if (compression == STK_TIFF_LZW && size >= 2 && from[0] == 0 && (from[1] & 1))
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of LZW as before revision 6.0; save it again");
	if (compression == STK_TIFF_LZW)
		written = unpack_lzw(u, from, size, to, need);
	else if (compression == STK_TIFF_PACKBITS)
		written = unpack_bits(u, from, size, to, need);
	else
		code = unpack_deflate(u, from, size, to, need, &written);
	u->written += written;
	if (code == Z_MEM_ERROR)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a TIFF's decompressor");
	if (u->read > 2 * (u->size + u->written))
		return stk__fail(err, STK_LIMIT, "a TIFF of %llu bytes whose strips or tiles share bytes that unpack to next to nothing",
			(unsigned long long)u->size);
	if (written < need || code == Z_DATA_ERROR)
		return stk__fail(err, STK_CORRUPT, "a damaged TIFF: a strip or tile unpacks to %zu of %zu bytes%s", written, need,
			code == Z_DATA_ERROR ? ", and zlib finds it damaged" : "");
	return STK_OK;
}
