/* SPDX-License-Identifier: Apache-2.0
 * PNG, decoded by libspng; undamaged files of the usual kinds are inflated as a whole (png_rows.h), with the same result. All rows are decoded, so that
 * damage is found wherever the window is. libspng passes no user pointer to its allocator, so the memory for its state (zlib's window, two rows; about
 * 100 KB) is allocated and freed for each image. */
#include "codec/bytes.h"
#include "codec/codec_impl.h"
#include "codec/convert.h"
#include "codec/exif.h"
#include "codec/png_rows.h"

#include <string.h>

#include <spng.h>
#include <zlib.h>

enum { SIGNATURE = 8, CHUNK_FRAME = 12, IHDR_END = SIGNATURE + CHUNK_FRAME + 13, MAX_ANCILLARY = 16 << 20 };
/* STATE: number of bytes that libspng and zlib allocate for their state. libspng keeps ROWS rows, each with ROW_SLACK bytes of padding. */
enum { STATE = 192 << 10, ROWS = 4, ROW_SLACK = 64 };
enum { COLOR_GRAY = 0, COLOR_RGB = 2, COLOR_PALETTE = 3, COLOR_GRAY_ALPHA = 4, COLOR_RGBA = 6 };

static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static bool png_probe(const uint8_t *data, size_t size)
{
	return size >= SIGNATURE && memcmp(data, signature, SIGNATURE) == 0;
}

/* Returns the numbers of bits that a sample of a colour type may have, as a mask: bit n stands for n bits. */
static uint32_t depths_of(int color)
{
	switch (color) {
	case COLOR_GRAY:
		return 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16;
	case COLOR_PALETTE:
		return 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8;
	case COLOR_RGB:
	case COLOR_GRAY_ALPHA:
	case COLOR_RGBA:
		return 1 << 8 | 1 << 16;
	default:
		return 0;
	}
}

/* Returns whether the checksum of a chunk is right. type: address of the chunk's letters, which are followed by `length` bytes and the checksum. */
static bool is_sound(const uint8_t *type, uint32_t length)
{
	return crc32_z(0, type, 4 + (size_t)length) == stk__get32(type + 4 + length, false);
}

/* Returns the orientation (1 to 8) in the chunk eXIf, which may precede or follow the pixels; 1 if the file has no such chunk, or if the chunk is damaged or its
 * orientation is not valid. Other damage is reported by the decoder. Sets *partial if the data end before the chunk, or before IEND. */
static int find_orientation(const uint8_t *data, size_t size, bool *partial)
{
	size_t at = IHDR_END;
	*partial = false;
	while (at <= size && size - at >= CHUNK_FRAME) {
		uint32_t length = stk__get32(data + at, false);
		const uint8_t *type = data + at + 4;
		if (memcmp(type, "IEND", 4) == 0)
			return 1;
		if (length > size - at - CHUNK_FRAME)
			break;
		if (memcmp(type, "eXIf", 4) == 0) {
			int orientation = is_sound(type, length) ? stk__exif_orientation(type + 4, length) : 0;
			return orientation ? orientation : 1;
		}
		at += CHUNK_FRAME + (size_t)length;
	}
	*partial = true;
	return 1;
}

struct chunks {
	size_t largest;
	bool has_metadata;             /* the file has chunks whose unpacked contents libspng keeps in memory */
	bool complete;                 /* the chunks end with a complete IEND */
	bool has_orientation, damaged; /* the file has a chunk eXIf; the checksum of the first one is wrong */
	bool has_empty;                /* the file has an eXIf without contents */
};

static bool is_empty_exif(const uint8_t *chunk)
{
	return memcmp(chunk, "\0\0\0\0eXIf", 8) == 0;
}

static struct chunks survey(const uint8_t *data, size_t size)
{
	static const char metadata[][5] = {"iCCP", "tEXt", "zTXt", "iTXt", "sPLT", "eXIf"};
	struct chunks c = {0};
	for (size_t at = SIGNATURE; size - at >= CHUNK_FRAME && !c.complete;) {
		uint32_t length = stk__get32(data + at, false);
		if (length > size - at - CHUNK_FRAME)
			break;
		c.largest = length > c.largest ? length : c.largest;
		for (size_t k = 0; k < sizeof metadata / sizeof *metadata; k++)
			c.has_metadata |= memcmp(data + at + 4, metadata[k], 4) == 0;
		c.complete = memcmp(data + at + 4, "IEND", 4) == 0;
		if (!c.has_orientation && memcmp(data + at + 4, "eXIf", 4) == 0) {
			c.has_orientation = true;
			c.damaged = !is_sound(data + at + 4, length);
		}
		c.has_empty |= is_empty_exif(data + at);
		at += CHUNK_FRAME + (size_t)length;
	}
	return c;
}

/* Returns a copy of the file without its empty chunks eXIf, for which libspng reports a lack of memory, and sets *size to its size. Returns NULL if memory is
 * short. */
static uint8_t *copy_without_empty(const uint8_t *data, size_t *size, struct stk_arena *scratch)
{
	uint8_t *copy = stk__arena_take(scratch, *size);
	size_t at = SIGNATURE, used = SIGNATURE;
	if (!copy)
		return NULL;
	memcpy(copy, data, SIGNATURE);
	while (*size - at >= CHUNK_FRAME) {
		const uint32_t length = stk__get32(data + at, false);
		if (length > *size - at - CHUNK_FRAME)
			break;
		if (!is_empty_exif(data + at)) {
			memcpy(copy + used, data + at, CHUNK_FRAME + (size_t)length);
			used += CHUNK_FRAME + (size_t)length;
		}
		at += CHUNK_FRAME + (size_t)length;
	}
	memcpy(copy + used, data + at, *size - at);
	*size = used + *size - at;
	memset(copy + *size, 0, STK_ARENA_SLACK);
	return copy;
}

static size_t row_bytes(int32_t width, int32_t channels, int32_t bits)
{
	return (size_t)width * (size_t)channels * (size_t)(bits / 8);
}

static struct stk_png_shape shape_of(const struct stk_image_info *info)
{
	size_t pixel = row_bytes(1, info->channels, info->bits);
	return (struct stk_png_shape){.row = pixel * (size_t)info->width, .pixel = pixel, .rows = (size_t)info->height};
}

/* Returns the number of bytes that libspng allocates for an image with rows of `row` bytes, without those for text and profiles. */
static size_t library_bytes(size_t row)
{
	return STATE + ROWS * (row + ROW_SLACK);
}

static enum stk_status png_peek(
	struct stk_decoder *decoder, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	(void)decoder;
	if (size < IHDR_END)
		return stk__fail(err, STK_CORRUPT, "a truncated PNG: it ends in its header, at %zu bytes", size);
	const uint8_t *d = data + SIGNATURE + 8;
	uint32_t width = stk__get32(d, false), height = stk__get32(d + 4, false);
	int bits = d[8], color = d[9];
	if (stk__get32(data + SIGNATURE, false) != 13 || memcmp(data + SIGNATURE + 4, "IHDR", 4) != 0)
		return stk__fail(err, STK_CORRUPT, "a PNG that does not begin with IHDR");
	if (!width || !height || width > INT32_MAX || height > INT32_MAX)
		return stk__fail(err, STK_CORRUPT, "a PNG of %u x %u pixels", width, height);
	if (bits > 16 || !(depths_of(color) >> bits & 1) || d[10] != 0 || d[11] != 0 || d[12] > 1)
		return stk__fail(err, STK_CORRUPT, "a PNG with an impossible header (%d bits of colour type %d)", bits, color);
	static const uint8_t channels[] = {
		[COLOR_GRAY] = 1, [COLOR_RGB] = 3, [COLOR_PALETTE] = 3, [COLOR_GRAY_ALPHA] = 2, [COLOR_RGBA] = 4};
	info->width = (int32_t)width;
	info->height = (int32_t)height;
	info->channels = channels[color];
	info->bits = bits == 16 ? 16 : 8;
	info->orientation = find_orientation(data, size, &info->partial);
	size_t row = row_bytes(info->width, info->channels, info->bits);
	info->memory = library_bytes(row) + (d[12] ? row * height : row) + ROW_SLACK;
	info->optional_memory = d[12] ? 0 : stk__png_rows_memory(size, shape_of(info)) + stk__scratch_bytes(row);
	return STK_OK;
}

/* The format of the file's pixels, and the options for libspng that follow from it. */
struct source {
	enum stk_pixels pixels;
	enum stk_dtype dtype;
	int format;
	size_t row; /* size of a row in bytes */
	bool interlaced;
};

static struct source describe(const struct spng_ihdr *ihdr)
{
	static const enum stk_pixels pixels[] = {[COLOR_GRAY] = STK_PIXELS_GRAY,
		[COLOR_RGB] = STK_PIXELS_RGB,
		[COLOR_PALETTE] = STK_PIXELS_RGB,
		[COLOR_GRAY_ALPHA] = STK_PIXELS_GRAY_ALPHA,
		[COLOR_RGBA] = STK_PIXELS_RGBA};
	static const uint8_t channels[] = {
		[COLOR_GRAY] = 1, [COLOR_RGB] = 3, [COLOR_PALETTE] = 3, [COLOR_GRAY_ALPHA] = 2, [COLOR_RGBA] = 4};
	struct source s = {.pixels = pixels[ihdr->color_type],
		.dtype = ihdr->bit_depth == 16 ? STK_UINT16 : STK_UINT8,
		.format = SPNG_FMT_PNG,
		.interlaced = ihdr->interlace_method != 0};
	if (ihdr->color_type == COLOR_PALETTE)
		s.format = SPNG_FMT_RGB8;
	else if (ihdr->color_type == COLOR_GRAY && ihdr->bit_depth < 8)
		s.format = SPNG_FMT_G8;
	s.row = (size_t)ihdr->width * channels[ihdr->color_type] * stk_dtype_size(s.dtype);
	return s;
}

static void put_row(const struct source *s, const uint8_t *row, const struct stk_decode *rq, int y)
{
	const struct stk_rect *w = &rq->window;
	if (y < w->y || y >= w->y + w->h)
		return;
	const uint8_t *from = row + (size_t)w->x * (s->row / (size_t)rq->info->width);
	uint8_t *to = (uint8_t *)rq->dst.data + (y - w->y) * rq->dst.row;
	stk__convert_row(s->pixels, s->dtype, from, rq->type, rq->dst.dtype, to, w->w, STK_GRAY_TRUNCATED);
}

static int decode_rows(spng_ctx *ctx, const struct source *s, const struct stk_decode *rq, uint8_t *scratch)
{
	int code = spng_decode_image(ctx, NULL, 0, s->format, SPNG_DECODE_PROGRESSIVE);
	if (s->interlaced) {
		struct spng_row_info row;
		while (!code && !stk__cancelled(rq->cancel) && !(code = spng_get_row_info(ctx, &row)))
			code = spng_decode_row(ctx, scratch + (size_t)row.row_num * s->row, s->row);
		for (int y = rq->window.y; code == SPNG_EOI && y < rq->window.y + rq->window.h; y++)
			put_row(s, scratch + (size_t)y * s->row, rq, y);
		return code == SPNG_EOI ? 0 : code;
	}
	for (int y = 0; !code && y < rq->info->height && !stk__cancelled(rq->cancel); y++) {
		code = spng_decode_row(ctx, scratch, s->row);
		if (!code || code == SPNG_EOI)
			put_row(s, scratch, rq, y);
	}
	return code == SPNG_EOI ? 0 : code;
}

/* Copies samples of 16 bits from big-endian to the processor's byte order. `to` must be aligned; `from` need not be. size: in bytes. */
static void copy_samples(uint8_t *to, const uint8_t *from, size_t size)
{
	for (size_t i = 0; i < size; i += 2) {
		uint16_t sample = (uint16_t)stk__get16(from + i, false);
		memcpy(to + i, &sample, 2);
	}
}

/* Decodes the image without libspng. Returns false if libspng has to decode it. */
static bool decode_at_once(struct stk_decoder *d, const struct source *s, const struct stk_decode *rq)
{
	if (s->interlaced || s->format != SPNG_FMT_PNG)
		return false;
	struct stk_arena_mark mark = stk__arena_mark(d->scratch);
	uint8_t *aligned = s->dtype == STK_UINT16 ? stk__arena_take(d->scratch, s->row) : NULL;
	uint8_t *rows = NULL;
	if (aligned || s->dtype != STK_UINT16)
		rows = stk__png_rows(rq->data, rq->size, shape_of(rq->info), d->scratch, rq->cancel);
	for (int y = rq->window.y; rows && y < rq->window.y + rq->window.h && !stk__cancelled(rq->cancel); y++) {
		const uint8_t *row = rows + (size_t)y * (1 + s->row) + 1;
		if (aligned)
			copy_samples(aligned, row, s->row);
		put_row(s, aligned ? aligned : row, rq, y);
	}
	stk__arena_release(d->scratch, mark);
	return rows != NULL;
}

static enum stk_status fail_spng(int code, struct stk_error *err)
{
	if (code == SPNG_ECHUNK_LIMITS)
		return stk__fail(err, STK_LIMIT,
			"a PNG whose text and profiles take too much memory: over 16 MiB, or half of what memory_limit leaves");
	enum stk_status status = code == SPNG_EMEM || code == SPNG_EZLIB_INIT ? STK_NO_MEMORY : STK_CORRUPT;
	return stk__fail(err, status, "PNG: %s", spng_strerror(code));
}

/* Limits the memory that libspng keeps for text and profiles. It doubles its buffers while it unpacks them, so text and profiles get half of the remaining
 * memory; and libspng accepts no limit below the size of the largest chunk. */
static enum stk_status limit_chunks(spng_ctx *ctx, struct stk_arena *scratch, const struct chunks *c, struct stk_error *err)
{
	size_t half = stk__arena_left(scratch) / 2, most = half < MAX_ANCILLARY ? half : MAX_ANCILLARY;
	if (c->largest > most && c->has_metadata && !stk__arena_allows(scratch, 2 * c->largest))
		return stk__fail(err, STK_NO_MEMORY, "no memory for a PNG with a chunk of %zu bytes", c->largest);
	most = c->largest > most ? c->largest : most;
	int code = spng_set_chunk_limits(ctx, most, most);
	return code ? fail_spng(code, err) : STK_OK;
}

static enum stk_status decode_with(spng_ctx *ctx, struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	struct spng_ihdr ihdr;
	int code = spng_set_image_limits(ctx, (uint32_t)rq->info->width, (uint32_t)rq->info->height);
	if (!code)
		code = spng_set_png_buffer(ctx, rq->data, rq->size);
	if (!code)
		code = spng_get_ihdr(ctx, &ihdr);
	if (code)
		return fail_spng(code, err);
	if (ihdr.width != (uint32_t)rq->info->width || ihdr.height != (uint32_t)rq->info->height)
		return stk__fail(err, STK_INVALID, "the image's info was read from another image");
	struct source s = describe(&ihdr);
	code = spng_decode_chunks(ctx); /* reads the chunks before the pixels */
	if (code)
		return fail_spng(code, err);
	if (decode_at_once(d, &s, rq))
		return STK_OK;
	uint8_t *scratch = stk__arena_take(d->scratch, s.interlaced ? s.row * ihdr.height : s.row);
	if (!scratch)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a PNG of %ux%u", ihdr.width, ihdr.height);
	code = decode_rows(ctx, &s, rq, scratch);
	if (!code && !d->limits.lenient && !stk__cancelled(rq->cancel))
		code = spng_decode_chunks(ctx); /* reads the chunks after the pixels, and the CRC of the last chunk of pixels */
	return code ? fail_spng(code, err) : STK_OK;
}

static enum stk_status png_decode(struct stk_decoder *d, const struct stk_decode *request, struct stk_error *err)
{
	struct stk_decode clean = *request, *rq = &clean;
	struct chunks chunks = survey(rq->data, rq->size);
	if (chunks.has_empty && !(clean.data = copy_without_empty(request->data, &clean.size, d->scratch)))
		return stk__fail(err, STK_NO_MEMORY, "no memory for a PNG of %zu bytes", request->size);
	if (!d->limits.lenient && !chunks.complete)
		return stk__fail(err, STK_CORRUPT, "a truncated PNG: no IEND before its end at %zu bytes", rq->size);
	if (!d->limits.lenient && rq->orient && chunks.damaged)
		return stk__fail(err, STK_CORRUPT,
			"PNG: the checksum of its chunk eXIf is wrong, so that its orientation is not known: repair the file, or decode it without orientation");
	size_t library = library_bytes(row_bytes(rq->info->width, rq->info->channels, rq->info->bits));
	if (!stk__arena_charge(d->scratch, library))
		return stk__fail(err, STK_NO_MEMORY, "no memory for a PNG decoder");
	struct spng_alloc alloc = {stk__alloc, stk__realloc, stk__calloc, stk__free};
	spng_ctx *ctx = spng_ctx_new2(&alloc, 0);
	enum stk_status status =
		ctx ? limit_chunks(ctx, d->scratch, &chunks, err) : stk__fail(err, STK_NO_MEMORY, "no memory for a PNG decoder");
	if (!status)
		status = decode_with(ctx, d, rq, err);
	spng_ctx_free(ctx);
	stk__arena_discharge(d->scratch, library);
	return status;
}

static const char *const endings[] = {"png", NULL};

const struct stk_codec stk__codec_png = {"png", "PNG", endings, false, png_probe, png_peek, png_decode};
