/* SPDX-License-Identifier: Apache-2.0 */
#include "hostile_files.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };

static void put(struct test_file *f, const void *bytes, size_t n)
{
	if (n) /* memcpy must not be called with a null pointer, even if n is 0 */
		memcpy(f->data + f->size, bytes, n);
	f->size += n;
}

static void put_byte(struct test_file *f, int byte)
{
	f->data[f->size++] = (uint8_t)byte;
}

static void put16(struct test_file *f, unsigned v)
{
	put_byte(f, (int)(v >> 8 & 255));
	put_byte(f, (int)(v & 255));
}

static void put32(struct test_file *f, uint32_t v)
{
	put16(f, v >> 16);
	put16(f, v & 0xffff);
}

/* ---- JPEG ---- */

static void put_frame(struct test_file *f, int width, int height)
{
	static const uint8_t components[] = {1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0};
	put16(f, 0xffd8);
	put16(f, 0xffdb); /* a quantisation table of ones */
	put16(f, 67);
	put_byte(f, 0);
	memset(f->data + f->size, 1, 64);
	f->size += 64;
	put16(f, 0xffc2);
	put16(f, 17);
	put_byte(f, 8);
	put16(f, (unsigned)height);
	put16(f, (unsigned)width);
	put_byte(f, 3);
	put(f, components, sizeof components);
}

/* Writes a Huffman table with a single code: one bit, 0. Its symbol begins a run of empty blocks, whose length is 2^14 plus the next 14 bits [G.1.2.2]. */
static void put_table(struct test_file *f)
{
	static const uint8_t counts[16] = {1};
	put16(f, 0xffc4);
	put16(f, 20);
	put_byte(f, 0x10);
	put(f, counts, 16);
	put_byte(f, 0xe0);
}

struct test_file hostile_jpeg(int width, int height)
{
	struct test_file f = {calloc(1, ROOM), 0};
	static const uint8_t scan[] = {1, 1, 0x00, 1, 63, 0};
	/* EXTRA: the number that the 14 bits after the code add to the run. Repetitions of the code with these bits contain no byte FF, so no byte is stuffed. */
	enum { EXTRA = 0x3efd, RUN = (1 << 14) + EXTRA };
	put_frame(&f, width, height);
	put_table(&f);
	put16(&f, 0xffda);
	put16(&f, 8);
	put(&f, scan, sizeof scan);
	int64_t blocks = (int64_t)((width + 7) / 8) * ((height + 7) / 8);
	uint64_t bits = 0;
	int count = 0;
	for (; blocks > 0; blocks -= RUN) {
		bits = bits << 15 | EXTRA;
		for (count += 15; count >= 8; count -= 8) {
			put_byte(&f, (int)(bits >> (count - 8) & 255));
			if ((bits >> (count - 8) & 255) == 255)
				put_byte(&f, 0);
		}
	}
	if (count)
		put_byte(&f, (int)(bits << (8 - count) & 255) | (255 >> count) >> 1);
	put16(&f, 0xffd9);
	return f;
}

/* ---- PNG chunks ---- */

static uint32_t crc_of(const uint8_t *data, size_t n)
{
	uint32_t crc = 0xffffffff;
	for (size_t i = 0; i < n; i++) {
		crc ^= data[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static void put_chunk(struct test_file *f, const char *type, const uint8_t *data, size_t n)
{
	size_t at = f->size + 4;
	put32(f, (uint32_t)n);
	put(f, type, 4);
	put(f, data, n);
	put32(f, crc_of(f->data + at, n + 4));
}

struct test_file hostile_png(uint32_t width, uint32_t height, bool interlaced)
{
	/* A zlib stream of 16 zeros, stored without compression [RFC 1950, RFC 1951]. */
	static const uint8_t pixels[] = {0x78, 0x01, 1, 16, 0, 0xef, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 1};
	struct test_file f = {calloc(1, ROOM), 0}, head = {calloc(1, ROOM), 0};
	put(&f, "\x89PNG\r\n\x1a\n", 8);
	put32(&head, width);
	put32(&head, height);
	put(&head, "\x08\x02\0\0", 4);
	put_byte(&head, interlaced);
	put_chunk(&f, "IHDR", head.data, head.size);
	free(head.data);
	put_chunk(&f, "IDAT", pixels, sizeof pixels);
	put_chunk(&f, "IEND", (const uint8_t *)"", 0);
	return f;
}

void hostile_png_insert(struct test_file *f, const char *type, size_t size)
{
	enum { HEAD = 33, FRAME = 12, SLACK = 64 };
	struct test_file out = {calloc(1, f->size + size + FRAME + SLACK), 0};
	uint8_t *data = calloc(1, size);
	if (!out.data || !data)
		abort();
	memcpy(data, "MM\0*\0\0\0\x08", size < 8 ? size : 8);
	put(&out, f->data, HEAD);
	put_chunk(&out, type, data, size);
	put(&out, f->data + HEAD, f->size - HEAD);
	free(data);
	free(f->data);
	*f = out;
}

/* ---- mutation ---- */

static unsigned odd_number(uint64_t *seed)
{
	static const unsigned odd[] = {
		0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 255, 256, 257, 4096, 16383, 16384, 32767, 32768, 65500, 65534, 65535};
	return test_random(seed) % 4 ? odd[test_random(seed) % (sizeof odd / sizeof *odd)] : test_random(seed) & 0xffff;
}

static void set16(struct test_file *f, size_t at, unsigned v)
{
	if (at + 2 <= f->size) {
		f->data[at] = (uint8_t)(v >> 8);
		f->data[at + 1] = (uint8_t)v;
	}
}

/* Moves the bytes from offset `at` on by n bytes towards the end. */
static void open_gap(struct test_file *f, size_t at, size_t n)
{
	memmove(f->data + at + n, f->data + at, f->size - at);
	f->size += n;
}

static void mutate_frame(struct test_file *f, size_t at, uint64_t *seed)
{
	static const uint8_t factors[] = {0x11, 0x21, 0x12, 0x22, 0x41, 0x14, 0x44, 0x31, 0x13, 0x33, 0x24, 0x42, 0x00, 0x51};
	size_t component = at + 10 + 3 * (test_random(seed) % 4);
	switch (test_random(seed) % 6) {
	case 0:
		set16(f, at + 5, odd_number(seed));
		break;
	case 1:
		set16(f, at + 7, odd_number(seed));
		break;
	case 2:
		set16(f, at + 5, odd_number(seed));
		set16(f, at + 7, odd_number(seed));
		break;
	case 3:
		/* Changes the coding process: the marker becomes one of the markers C0 to CF. */
		f->data[at + 1] = (uint8_t)(0xc0 + test_random(seed) % 16);
		break;
	case 4:
		f->data[at + 9] = (uint8_t)(test_random(seed) % 6); /* changes the number of components */
		break;
	default:
		if (component + 3 <= f->size)
			f->data[component + 1] = factors[test_random(seed) % sizeof factors];
	}
}

static void mutate_segment(struct test_file *f, size_t at, uint64_t *seed)
{
	size_t length = (size_t)f->data[at + 2] << 8 | f->data[at + 3];
	int marker = f->data[at + 1];
	if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc && test_random(seed) % 4) {
		mutate_frame(f, at, seed);
		return;
	}
	switch (test_random(seed) % 5) {
	case 0: /* changes the segment's length */
		set16(f, at + 2, test_random(seed) & 1 ? (unsigned)length + test_random(seed) % 9 - 4 : odd_number(seed));
		break;
	case 1: /* changes the segment's contents */
		if (length > 2 && at + 2 + length <= f->size)
			f->data[at + 4 + test_random(seed) % (length - 2)] = (uint8_t)odd_number(seed);
		break;
	case 2: /* inserts a restart interval before the segment */
		open_gap(f, at, 6);
		set16(f, at, 0xffdd);
		set16(f, at + 2, 4);
		set16(f, at + 4, odd_number(seed));
		break;
	case 3: /* inserts EXIF data with large counts before the segment */
		open_gap(f, at, 32);
		memcpy(f->data + at,
			"\xff\xe1\0\x1e"
			"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0",
			32);
		if (test_random(seed) & 1)
			set16(f, at + 2, odd_number(seed));
		f->data[at + 10 + test_random(seed) % 22] = (uint8_t)odd_number(seed);
		break;
	default: /* changes the marker */
		f->data[at + 1] = (uint8_t)(0xc0 + test_random(seed) % 0x40);
	}
}

/* Returns the offset of the k-th marker segment, or 0 if the file has fewer. */
static size_t find_segment(const struct test_file *f, unsigned k)
{
	size_t at = 2;
	while (at + 4 <= f->size && f->data[at] == 0xff && f->data[at + 1] != 0xd9) {
		if (k-- == 0)
			return at;
		at += 2 + ((size_t)f->data[at + 2] << 8 | f->data[at + 3]);
		while (at + 4 <= f->size && (f->data[at] != 0xff || f->data[at + 1] == 0 || (f->data[at + 1] & 0xf8) == 0xd0))
			at++; /* skips entropy-coded bytes */
	}
	return 0;
}

static void mutate_chunk(struct test_file *f, size_t at, uint64_t *seed)
{
	uint32_t length = (uint32_t)f->data[at] << 24 | (uint32_t)f->data[at + 1] << 16 | (uint32_t)f->data[at + 2] << 8 | f->data[at + 3];
	if (length > f->size - at - 12)
		return;
	bool head = memcmp(f->data + at + 4, "IHDR", 4) == 0;
	if (head && test_random(seed) % 3) {
		static const uint8_t kinds[][2] = {
			{8, 2}, {16, 2}, {8, 6}, {16, 6}, {8, 0}, {1, 0}, {16, 0}, {8, 3}, {2, 3}, {16, 4}, {7, 2}};
		const uint8_t *kind = kinds[test_random(seed) % (sizeof kinds / sizeof *kinds)];
		if (test_random(seed) & 1)
			set16(f, at + 8 + 4 * (test_random(seed) & 1) + 2 * (test_random(seed) % 4 != 0), odd_number(seed));
		else
			memcpy(f->data + at + 16, kind, 2);
		f->data[at + 20] = test_random(seed) & 1;
	} else if (test_random(seed) & 1) {
		static const char types[][5] = {"iCCP", "zTXt", "iTXt", "tEXt", "sPLT", "eXIf", "tRNS", "PLTE", "hIST", "IDAT", "IEND"};
		memcpy(f->data + at + 4, types[test_random(seed) % (sizeof types / sizeof *types)], 4);
	} else if (length) {
		f->data[at + 8 + test_random(seed) % length] = (uint8_t)odd_number(seed);
	} else {
		set16(f, at + 2, odd_number(seed));
		return;
	}
	uint32_t crc = crc_of(f->data + at + 4, length + 4); /* must be correct, or the decoder ignores the rest of the file */
	set16(f, at + 8 + length, crc >> 16);
	set16(f, at + 10 + length, crc & 0xffff);
}

static size_t find_chunk(const struct test_file *f, unsigned k)
{
	size_t at = 8;
	while (at + 12 <= f->size) {
		uint32_t length =
			(uint32_t)f->data[at] << 24 | (uint32_t)f->data[at + 1] << 16 | (uint32_t)f->data[at + 2] << 8 | f->data[at + 3];
		if (k-- == 0)
			return at;
		if (length > f->size - at - 12)
			break;
		at += 12 + length;
	}
	return 0;
}

void hostile_mutate(struct test_file *f, uint64_t *seed)
{
	bool png = f->size > 8 && f->data[0] == 0x89;
	size_t at = (png ? find_chunk : find_segment)(f, test_random(seed) % 12);
	if (at && png)
		mutate_chunk(f, at, seed);
	else if (at)
		mutate_segment(f, at, seed);
	else if (f->size)
		f->data[test_random(seed) % f->size] ^= (uint8_t)(1u << test_random(seed) % 8);
}
