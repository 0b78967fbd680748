/* SPDX-License-Identifier: Apache-2.0
 * BMP of Windows and OS/2: 1, 4, 8, 16, 24 and 32 bits per pixel, palettes, bit fields, run lengths, rows in either order. Rows have a fixed size, so a
 * window only reads its own rows. Run-length coded images are unpacked as a whole, to a byte per pixel. */
#include "codec/bytes.h"
#include "codec/codec_impl.h"
#include "codec/convert.h"

#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40, OS2_HEADER = 64, MOST_COLORS = 256, CHUNK = 64 };
enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, BIT_FIELDS = 3, ALPHA_BIT_FIELDS = 6, OS2_HUFFMAN = 3, OS2_RLE24 = 4 };

/* The position of a channel's bits in a pixel: (pixel & mask) >> shift is a value from 0 to max. */
struct field {
	uint32_t mask, shift, max;
};

struct bmp {
	int32_t width, height;
	uint32_t bits, compression, offset;
	bool top_down;
	bool gray;          /* all colours of the palette are gray */
	bool short_palette; /* the pixels begin before the end of the palette, as the header states its size */
	struct field field[4];
	int colors;                      /* number of the palette's colours in the file; 0 without a palette (bits > 8) */
	uint8_t palette[MOST_COLORS][3]; /* red, green, blue; colours that are not in the file are black */
};

static bool bmp_probe(const uint8_t *data, size_t size)
{
	return size >= 2 && data[0] == 'B' && data[1] == 'M';
}

static struct field field_of(uint32_t mask)
{
	struct field f = {mask, 0, 0};
	if (mask) {
		f.shift = (uint32_t)__builtin_ctz(mask);
		f.max = mask >> f.shift;
	}
	return f;
}

/* Sets the bit fields: fixed ones for an uncompressed image; others are read from the file, in which they follow a header of 40 bytes or are at the same
 * offset inside a longer header. */
static enum stk_status read_fields(struct bmp *b, const uint8_t *data, size_t size, uint32_t header, struct stk_error *err)
{
	static const uint32_t of16[] = {0x7c00, 0x3e0, 0x1f}, of32[] = {0xff0000, 0xff00, 0xff};
	uint32_t masks[4] = {0};
	if (b->compression == PLAIN) {
		memcpy(masks, b->bits == 16 ? of16 : of32, sizeof of16);
	} else {
		size_t count = b->compression == ALPHA_BIT_FIELDS || header >= 56 ? 4 : 3;
		if (size < FILE_HEADER + INFO_HEADER + 4 * count)
			return stk__fail(err, STK_CORRUPT, "a truncated BMP: it ends in its header, at %zu bytes", size);
		for (size_t k = 0; k < count; k++)
			masks[k] = stk__get32(data + FILE_HEADER + INFO_HEADER + 4 * k, true);
	}
	uint32_t used_bits = 0;
	for (int k = 0; k < 4; k++) {
		b->field[k] = field_of(masks[k]);
		bool has_gap = b->field[k].max & (b->field[k].max + 1), too_wide = b->bits == 16 && masks[k] >> 16;
		if (has_gap || too_wide || (used_bits & masks[k]) || (k < 3 && !masks[k]))
			return stk__fail(err, STK_CORRUPT, "a BMP with impossible bit fields (%08x %08x %08x %08x)", masks[0], masks[1],
				masks[2], masks[3]);
		used_bits |= masks[k];
	}
	return STK_OK;
}

static bool is_indexed(const struct bmp *b)
{
	return b->bits <= 8;
}

/* Sets b->offset to the offset of the pixels, and checks it. header_end: offset of the header's end, after which follow `bytes` bytes: masks, or colours of
 * `entry_size` bytes. If the file states 0 or (with a palette) the header's end, the pixels follow the colours or masks, as in Pillow. Refuses an offset inside
 * the colours or masks, unless a whole colour of a palette ends at it: then the palette is shorter than the header says. */
static enum stk_status place_pixels(struct bmp *b, uint64_t header_end, uint64_t bytes, uint32_t entry_size, struct stk_error *err)
{
	bool palette = is_indexed(b);
	uint64_t at = b->offset == 0 || (palette && b->offset == header_end) ? header_end + bytes : b->offset;
	if (at > UINT32_MAX || at < header_end || (at < header_end + bytes && (!palette || (at - header_end) % entry_size)))
		return stk__fail(err, STK_CORRUPT, "a BMP whose pixels begin at offset %llu, inside its header of %llu bytes",
			(unsigned long long)at, (unsigned long long)(header_end + bytes));
	b->offset = (uint32_t)at;
	return STK_OK;
}

static enum stk_status read_palette(struct bmp *b, const uint8_t *data, size_t size, uint32_t header, struct stk_error *err)
{
	uint32_t entry = header == CORE_HEADER ? 3 : 4, most = 1u << b->bits;
	uint32_t colors = header >= INFO_HEADER ? stk__get32(data + FILE_HEADER + 32, true) : 0;
	size_t at = FILE_HEADER + (size_t)header;
	colors = colors == 0 ? most : colors;
	enum stk_status s = place_pixels(b, at, (uint64_t)entry * colors, entry, err);
	if (s)
		return s;
	size_t end = b->offset < size ? b->offset : size, capacity = end > at ? (end - at) / entry : 0;
	colors = colors > most ? most : colors;
	b->short_palette = colors > capacity;
	colors = b->short_palette ? (uint32_t)capacity : colors;
	b->colors = (int)colors;
	b->gray = true;
	for (uint32_t i = 0; i < colors; i++) {
		const uint8_t *p = data + at + (size_t)i * entry;
		for (int k = 0; k < 3; k++)
			b->palette[i][k] = p[2 - k];
		b->gray &= p[0] == p[1] && p[1] == p[2];
	}
	return STK_OK;
}

static bool bits_known(uint32_t bits, uint32_t compression)
{
	switch (compression) {
	case PLAIN:
		return bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32;
	case RLE8:
		return bits == 8;
	case RLE4:
		return bits == 4;
	default:
		return bits == 16 || bits == 32;
	}
}

static bool is_packed(const struct bmp *b)
{
	return b->compression == RLE8 || b->compression == RLE4;
}

static uint64_t row_bytes(const struct bmp *b)
{
	return ((uint64_t)b->width * b->bits + 31) / 32 * 4;
}

/* Limits images that claim more memory than their file justifies. Two bytes can make up to 255 pixels, and codes that skip pixels need no bytes for them. So
 * an image of more than FREE_PIXELS pixels must have at least one byte for every PIXELS_A_BYTE pixels. */
enum { FREE_PIXELS = 1 << 22, PIXELS_A_BYTE = 1024 };

/* Reads the extents and the format of pixels. *header: set to the size in bytes of the info header. */
static enum stk_status read_header(struct bmp *b, const uint8_t *data, size_t size, uint32_t *header, struct stk_error *err)
{
	if (size < FILE_HEADER + CORE_HEADER)
		return stk__fail(err, STK_CORRUPT, "a truncated BMP: it ends in its header, at %zu bytes", size);
	const uint8_t *d = data + FILE_HEADER;
	*header = stk__get32(d, true);
	b->offset = stk__get32(data + 10, true);
	if (*header != CORE_HEADER && (*header < INFO_HEADER || *header > 124))
		return stk__fail(err, STK_UNSUPPORTED, "a BMP with a header of %u bytes", *header);
	if (size < FILE_HEADER + (size_t)*header)
		return stk__fail(err, STK_CORRUPT, "a truncated BMP: it ends in its header, at %zu bytes", size);
	bool core = *header == CORE_HEADER;
	int64_t width = core ? (int32_t)stk__get16(d + 4, true) : (int32_t)stk__get32(d + 4, true);
	int64_t height = core ? (int32_t)stk__get16(d + 6, true) : (int32_t)stk__get32(d + 8, true);
	b->bits = stk__get16(d + (core ? 10 : 14), true);
	b->compression = core ? PLAIN : stk__get32(d + 16, true);
	b->top_down = height < 0;
	height = height < 0 ? -height : height;
	if (width <= 0 || height == 0 || height > INT32_MAX)
		return stk__fail(err, STK_CORRUPT, "a BMP of %lld x %lld pixels", (long long)width, (long long)height);
	if (*header == OS2_HEADER && (b->compression == OS2_RLE24 || (b->compression == OS2_HUFFMAN && b->bits == 1)))
		return stk__fail(err, STK_UNSUPPORTED, "a BMP of OS/2's %s; save it uncompressed, or as PNG",
			b->compression == OS2_RLE24 ? "run lengths of 24 bits" : "Huffman coding");
	if (b->compression > BIT_FIELDS && b->compression != ALPHA_BIT_FIELDS)
		return stk__fail(err, STK_UNSUPPORTED,
			"a BMP of compression %u (a JPEG or PNG inside it, or what printers take); save it uncompressed, or as PNG",
			b->compression);
	if (!bits_known(b->bits, b->compression) || (is_packed(b) && b->top_down))
		return stk__fail(err, STK_CORRUPT, "a BMP with an impossible header (%u bits of compression %u)", b->bits, b->compression);
	if (is_packed(b) && width * height > FREE_PIXELS && width * height / PIXELS_A_BYTE > (int64_t)size)
		return stk__fail(err, STK_LIMIT, "a BMP that claims %lld x %lld pixels in %zu bytes of run lengths", (long long)width,
			(long long)height, size);
	b->width = (int32_t)width;
	b->height = (int32_t)height;
	return STK_OK;
}

static enum stk_status read_bmp(struct bmp *b, const uint8_t *data, size_t size, struct stk_error *err)
{
	uint32_t header = 0;
	memset(b, 0, sizeof *b);
	enum stk_status s = read_header(b, data, size, &header, err);
	if (s)
		return s;
	if (is_indexed(b))
		return read_palette(b, data, size, header, err);
	if (b->bits != 24 && (s = read_fields(b, data, size, header, err)))
		return s;
	/* Number of bytes of the masks that follow an INFO_HEADER. Longer headers contain their masks. */
	uint64_t masks = header != INFO_HEADER ? 0 : b->compression == BIT_FIELDS ? 12 : b->compression == ALPHA_BIT_FIELDS ? 16 : 0;
	return place_pixels(b, FILE_HEADER + (uint64_t)header, masks, 1, err);
}

static enum stk_pixels pixels_of(const struct bmp *b)
{
	return is_indexed(b) ? b->gray ? STK_PIXELS_GRAY : STK_PIXELS_RGB : b->field[3].mask ? STK_PIXELS_RGBA : STK_PIXELS_RGB;
}

static int channels_of(const struct bmp *b)
{
	return is_indexed(b) && b->gray ? 1 : b->field[3].mask ? 4 : 3;
}

static enum stk_status bmp_peek(
	struct stk_decoder *decoder, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	(void)decoder;
	struct bmp b;
	enum stk_status s = read_bmp(&b, data, size, err);
	if (s)
		return s;
	info->width = b.width;
	info->height = b.height;
	info->channels = channels_of(&b);
	info->bits = 8;
	info->memory = is_packed(&b) ? stk__scratch_bytes((size_t)b.width * (size_t)b.height) : 0;
	return STK_OK;
}

/* ---- run lengths ---- */

/* The image to which runs are unpacked: indices into the palette, row by row from the bottom up, and the position of the next pixel. */
struct runs {
	const struct bmp *b;
	uint8_t *index;
	int64_t x, y;
};

/* Writes a run of `count` pixels, which alternate between `even` and `odd`. Ignores pixels beyond the end of the row, since encoders pad rows. Returns false
 * if the run begins after the last row. */
static bool put_run(struct runs *r, int count, uint8_t even, uint8_t odd)
{
	if (r->y >= r->b->height)
		return false;
	uint8_t *row = r->index + (r->b->height - 1 - r->y) * r->b->width;
	for (int i = 0; i < count; i++, r->x++)
		if (r->x < r->b->width)
			row[r->x] = i & 1 ? odd : even;
	return true;
}

/* Writes pixels that are stored directly, two per byte if they have 4 bits. *after: set to the end of the stored bytes, whose number is padded to an even
 * one. Returns false if the pixels exceed the data or begin after the last row. */
static bool put_literal(struct runs *r, const uint8_t *data, const uint8_t *end, int count, const uint8_t **after)
{
	bool four = r->b->compression == RLE4;
	ptrdiff_t bytes = four ? (count + 1) / 2 : count, padded = bytes + (bytes & 1);
	if (end - data < bytes)
		return false;
	*after = end - data < padded ? end : data + padded;
	for (int i = 0; i < count; i++) {
		uint8_t v = four ? i & 1 ? data[i / 2] & 15 : data[i / 2] >> 4 : data[i];
		if (!put_run(r, 1, v, v))
			return false;
	}
	return true;
}

/* Unpacks all runs. Returns false if the data end without a mark before the image is complete, or if a run begins after the last row. */
static bool unpack_runs(struct runs *r, const uint8_t *p, const uint8_t *end)
{
	while (end - p >= 2) {
		int count = p[0], code = p[1];
		p += 2;
		if (count) {
			bool four = r->b->compression == RLE4;
			if (!put_run(r, count, four ? (uint8_t)(code >> 4) : (uint8_t)code, four ? code & 15 : (uint8_t)code))
				return false;
		} else if (code == 0) {
			r->x = 0;
			r->y++;
		} else if (code == 1) {
			return true;
		} else if (code == 2) {
			if (end - p < 2)
				return false;
			r->x += p[0];
			r->y += p[1];
			p += 2;
		} else if (!put_literal(r, p, end, code, &p)) {
			return false;
		}
	}
	return r->y >= r->b->height || (r->y == r->b->height - 1 && r->x >= r->b->width); /* only the mark at the end may be missing */
}

/* ---- rows ---- */

static uint8_t index_at(const uint8_t *row, uint32_t bits, int32_t x)
{
	switch (bits) {
	case 1:
		return row[x >> 3] >> (7 - (x & 7)) & 1;
	case 4:
		return x & 1 ? row[x >> 1] & 15 : row[x >> 1] >> 4;
	default:
		return row[x];
	}
}

static uint8_t channel_of(uint32_t pixel, const struct field *f)
{
	return f->max ? (uint8_t)(((uint64_t)((pixel & f->mask) >> f->shift) * 255 + f->max / 2) / f->max) : 0;
}

/* Loads n pixels from column x on, in the format of pixels_of. index_bits: number of bits of an index into the palette, if there is a palette. */
static void load_pixels(const struct bmp *b, const uint8_t *row, uint32_t index_bits, int32_t x, int n, uint8_t *out)
{
	int channels = channels_of(b);
	for (int i = 0; i < n; i++, x++, out += channels) {
		if (is_indexed(b)) {
			memcpy(out, b->palette[index_at(row, index_bits, x)], (size_t)channels);
		} else if (b->bits == 24) {
			const uint8_t *p = row + 3 * (ptrdiff_t)x;
			out[0] = p[2];
			out[1] = p[1];
			out[2] = p[0];
		} else {
			uint32_t pixel =
				b->bits == 16 ? stk__get16(row + 2 * (ptrdiff_t)x, true) : stk__get32(row + 4 * (ptrdiff_t)x, true);
			for (int k = 0; k < channels; k++)
				out[k] = channel_of(pixel, &b->field[k]);
		}
	}
}

/* Refuses indices of colours that are missing in a short palette: the file contradicts itself, and programs read it differently. */
static enum stk_status check_indices(const struct bmp *b, const uint8_t *rows, ptrdiff_t stride, uint32_t index_bits, struct stk_error *err)
{
	for (int32_t y = 0; b->short_palette && y < b->height; y++)
		for (int32_t x = 0; x < b->width; x++)
			if (index_at(rows + y * stride, index_bits, x) >= b->colors)
				return stk__fail(err, STK_CORRUPT,
					"a BMP with a pixel of colour %d, whose pixels begin after colour %d of the palette, at offset %u",
					index_at(rows + y * stride, index_bits, x), b->colors - 1, b->offset);
	return STK_OK;
}

/* Converts the window's pixels to the output. first: address of the image's first row; stride: distance from a row to the one below it in bytes. */
static void put_window(const struct bmp *b, const uint8_t *first, ptrdiff_t stride, uint32_t index_bits, const struct stk_decode *rq)
{
	const struct stk_rect *w = &rq->window;
	uint8_t pixels[4 * CHUNK];
	for (int y = 0; y < w->h && !stk__cancelled(rq->cancel); y++) {
		const uint8_t *row = first + (w->y + y) * stride;
		uint8_t *to = (uint8_t *)rq->dst.data + y * rq->dst.row;
		for (int x = 0; x < w->w; x += CHUNK) {
			int n = w->w - x < CHUNK ? w->w - x : CHUNK;
			load_pixels(b, row, index_bits, w->x + x, n, pixels);
			stk__convert_row(pixels_of(b), STK_UINT8, pixels, rq->type, STK_UINT8, to + x * rq->dst.pixel, n, STK_GRAY_ROUNDED);
		}
	}
}

static enum stk_status decode_runs(const struct bmp *b, struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	size_t pixels = (size_t)b->width * (size_t)b->height;
	struct runs r = {.b = b, .index = stk__arena_take(d->scratch, pixels)};
	if (!r.index)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a BMP of %dx%d", b->width, b->height);
	memset(r.index, 0, pixels); /* pixels that the runs skip have the first colour */
	if (b->offset > rq->size || !unpack_runs(&r, rq->data + b->offset, rq->data + rq->size))
		return stk__fail(err, STK_CORRUPT, "a damaged or truncated BMP: its run lengths do not end with the image");
	enum stk_status s = check_indices(b, r.index, b->width, 8, err);
	if (!s)
		put_window(b, r.index, b->width, 8, rq);
	return s;
}

static enum stk_status bmp_decode(struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	struct bmp b;
	enum stk_status s = read_bmp(&b, rq->data, rq->size, err);
	if (s)
		return s;
	if (b.width != rq->info->width || b.height != rq->info->height || channels_of(&b) != rq->info->channels)
		return stk__fail(err, STK_INVALID, "the image's info was read from another image");
	if (is_packed(&b))
		return decode_runs(&b, d, rq, err);
	/* The padding after the last row may be missing. */
	uint64_t stride = row_bytes(&b), last = ((uint64_t)b.width * b.bits + 7) / 8, rows = (uint64_t)b.height - 1;
	uint64_t capacity = rq->size > b.offset ? rq->size - b.offset : 0;
	if (capacity < last || (capacity - last) / stride < rows)
		return stk__fail(err, STK_CORRUPT, "a truncated BMP: %d rows of %llu bytes from offset %u on do not lie in its %zu",
			b.height, (unsigned long long)stride, b.offset, rq->size);
	const uint8_t *pixels = rq->data + b.offset;
	if ((s = check_indices(&b, pixels, (ptrdiff_t)stride, b.bits, err)))
		return s;
	if (b.top_down)
		put_window(&b, pixels, (ptrdiff_t)stride, b.bits, rq);
	else
		put_window(&b, pixels + stride * rows, -(ptrdiff_t)stride, b.bits, rq);
	return STK_OK;
}

static const char *const endings[] = {"bmp", NULL};

const struct stk_codec stk__codec_bmp = {"bmp", "BMP", endings, false, bmp_probe, bmp_peek, bmp_decode};
