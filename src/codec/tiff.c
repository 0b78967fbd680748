/* SPDX-License-Identifier: Apache-2.0
 * TIFF and BigTIFF: the first image of a file. A window decodes only the strips or tiles that it overlaps. Supports gray of 1 to 16 bits, colours of 8 and
 * 16, CMYK of 8, palettes (whose colours have 16 bits), alpha, up to 64 bands, signed integers of 16 bits, floats of 32, and planes; uncompressed,
 * PackBits, LZW and deflate; both predictors. libtiff is not used, since it needs a dozen libraries for compressions that training data do not have. */
#include "codec/bytes.h"
#include "codec/codec_impl.h"
#include "codec/convert.h"
#include "codec/tiff_directory.h"
#include "codec/tiff_unpack.h"

#include <string.h>

enum { CHUNK = 64 };

/* Returns the type of the decoded samples; for palettes, that of the palette's colours. */
static enum stk_dtype dtype_of(const struct stk_tiff *t)
{
	if (t->format == STK_TIFF_FLOAT)
		return STK_FLOAT;
	if (t->format == STK_TIFF_SIGNED)
		return STK_INT16;
	return t->bits == 16 || t->photometric == STK_TIFF_PALETTE ? STK_UINT16 : STK_UINT8;
}

static int channels_of(const struct stk_tiff *t)
{
	return t->photometric == STK_TIFF_PALETTE ? 3 : (int)t->samples;
}

/* Returns the format of pixels of which only the first `samples` samples are used. */
static enum stk_pixels pixels_of(const struct stk_tiff *t, uint32_t samples)
{
	if (t->photometric == STK_TIFF_CMYK)
		return STK_PIXELS_CMYK;
	if (t->photometric == STK_TIFF_PALETTE)
		return STK_PIXELS_RGB;
	static const enum stk_pixels kinds[] = {
		[1] = STK_PIXELS_GRAY, [2] = STK_PIXELS_GRAY_ALPHA, [3] = STK_PIXELS_RGB, [4] = STK_PIXELS_RGBA};
	return kinds[samples];
}

static uint32_t planes_of(const struct stk_tiff *t)
{
	return t->separate ? t->samples : 1;
}

static enum stk_status tiff_peek(
	struct stk_decoder *decoder, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	(void)decoder;
	struct stk_tiff t;
	enum stk_status s = stk__tiff_read(data, size, &t, err);
	if (s)
		return s;
	info->width = t.width;
	info->height = t.height;
	info->channels = channels_of(&t);
	info->dtype = dtype_of(&t);
	info->bits = 8 * (int32_t)stk_dtype_size(info->dtype);
	info->measured = t.format != STK_TIFF_UNSIGNED || t.samples > (t.photometric == STK_TIFF_BLACK_IS_ZERO ? 2 : 4);
	info->orientation = t.orientation;
	if (t.compression != STK_TIFF_NONE)
		info->memory = STK_TIFF_UNPACKER_MEMORY + planes_of(&t) * stk__scratch_bytes((size_t)stk__tiff_chunk_bytes(&t)) +
			       stk__scratch_bytes((size_t)stk__tiff_row_bytes(&t));
	return STK_OK;
}

/* Checks that all chunks (strips or tiles) are inside the file, so that a truncated file is refused for every window. */
static enum stk_status check_whole(const struct stk_tiff *t, struct stk_error *err)
{
	for (uint64_t i = 0; i < t->across * t->down * planes_of(t); i++) {
		uint64_t at = stk__tiff_value(t, &t->offsets, i), bytes = stk__tiff_count(t, i);
		if (at > t->size || bytes > t->size - at)
			return stk__fail(err, STK_CORRUPT, "a truncated TIFF: %s %llu ends after its %zu bytes",
				t->tiled ? "tile" : "strip", (unsigned long long)i, t->size);
	}
	return STK_OK;
}

/* ---- one chunk ---- */

/* The memory of a decode, and the chunk that was unpacked last. */
struct unpacked {
	struct stk_tiff_unpacker *unpacker; /* NULL if the file is uncompressed */
	uint8_t *buffer[STK_TIFF_MOST_SAMPLES];
	const uint8_t *plane[STK_TIFF_MOST_SAMPLES];
	uint8_t *row;  /* memory for one row, which STK_TIFF_BYTE_DIFFERENCES needs */
	uint32_t rows; /* number of the chunk's rows that are in the file */
};

static enum stk_status take_memory(
	const struct stk_tiff *t, struct stk_arena *scratch, const struct stk_cancel *cancel, struct unpacked *u, struct stk_error *err)
{
	if (t->compression == STK_TIFF_NONE)
		return STK_OK;
	bool allocated = (u->unpacker = stk__tiff_unpacker_make(scratch, t->size, cancel));
	for (uint32_t p = 0; p < planes_of(t) && allocated; p++)
		allocated = (u->buffer[p] = stk__arena_take(scratch, (size_t)stk__tiff_chunk_bytes(t)));
	if (allocated && t->predictor == STK_TIFF_BYTE_DIFFERENCES)
		allocated = (u->row = stk__arena_take(scratch, (size_t)stk__tiff_row_bytes(t)));
	return allocated ? STK_OK : stk__fail(err, STK_NO_MEMORY, "no memory for a TIFF of %dx%d", t->width, t->height);
}

/* Computes the elements of a row from their differences. step: number of elements between an element and the one to which its difference refers. */
static void add_differences(const struct stk_tiff *t, uint8_t *row, size_t bytes, size_t step)
{
	if (t->bits == 8) {
		for (size_t i = step; i < bytes; i++)
			row[i] = (uint8_t)(row[i] + row[i - step]);
	} else if (t->bits == 16) {
		for (size_t i = step; i < bytes / 2; i++)
			stk__put16(
				row + 2 * i, stk__get16(row + 2 * i, t->little) + stk__get16(row + 2 * (i - step), t->little), t->little);
	} else {
		for (size_t i = step; i < bytes / 4; i++)
			stk__put32(
				row + 4 * i, stk__get32(row + 4 * i, t->little) + stk__get32(row + 4 * (i - step), t->little), t->little);
	}
}

/* Computes a row of floats from the differences of their bytes. The row stores the most significant bytes of all floats first, then the next ones, and so
 * on. sorted: memory for one row. */
static void add_byte_differences(const struct stk_tiff *t, uint8_t *row, size_t bytes, size_t step, uint8_t *sorted)
{
	size_t n = bytes / 4;
	for (size_t i = step; i < bytes; i++)
		row[i] = (uint8_t)(row[i] + row[i - step]);
	memcpy(sorted, row, bytes);
	for (size_t i = 0; i < n; i++) {
		const uint8_t *from = sorted + i;
		uint32_t v = (uint32_t)from[0] << 24 | (uint32_t)from[n] << 16 | (uint32_t)from[2 * n] << 8 | from[3 * n];
		stk__put32(row + 4 * i, v, t->little);
	}
}

static void undo_predictor(const struct stk_tiff *t, uint8_t *rows, uint32_t count, uint8_t *sorted)
{
	size_t bytes = (size_t)stk__tiff_row_bytes(t), step = t->separate ? 1 : t->samples;
	for (uint32_t y = 0; y < count; y++, rows += bytes)
		if (t->predictor == STK_TIFF_BYTE_DIFFERENCES)
			add_byte_differences(t, rows, bytes, step, sorted);
		else
			add_differences(t, rows, bytes, step);
}

static enum stk_status unpack_plane(const struct stk_tiff *t, uint64_t chunk, uint32_t p, struct unpacked *u, struct stk_error *err)
{
	const uint8_t *from = t->data + stk__tiff_value(t, &t->offsets, chunk);
	uint64_t size = stk__tiff_count(t, chunk), need = stk__tiff_row_bytes(t) * u->rows;
	if (t->compression == STK_TIFF_NONE) {
		u->plane[p] = from;
		return size >= need ? STK_OK
				    : stk__fail(err, STK_CORRUPT, "a damaged TIFF: a strip or tile has %llu of %llu bytes",
					      (unsigned long long)size, (unsigned long long)need);
	}
	size = size > UINT32_MAX ? UINT32_MAX : size;
	enum stk_status s = stk__tiff_unpack(u->unpacker, t->compression, from, (size_t)size, u->buffer[p], (size_t)need, err);
	if (!s && t->predictor != STK_TIFF_NO_PREDICTOR)
		undo_predictor(t, u->buffer[p], u->rows, u->row);
	u->plane[p] = u->buffer[p];
	return s;
}

/* ---- pixels ---- */

static uint32_t bits_at(const uint8_t *row, uint32_t bits, size_t x)
{
	size_t at = x * bits;
	return (uint32_t)row[at / 8] >> (8 - bits - at % 8) & ((1u << bits) - 1);
}

/* Returns sample i of a row. Integers of fewer than 8 bits are scaled to the range of 8 bits, unless they are indices into a palette. */
static uint32_t sample_at(const struct stk_tiff *t, const uint8_t *row, size_t i)
{
	switch (t->bits) {
	case 32:
		return stk__get32(row + 4 * i, t->little);
	case 16:
		return stk__get16(row + 2 * i, t->little);
	case 8:
		return row[i];
	default:
		return t->photometric == STK_TIFF_PALETTE ? bits_at(row, t->bits, i)
							  : bits_at(row, t->bits, i) * 255 / ((1u << t->bits) - 1);
	}
}

static void load_colors(const struct stk_tiff *t, const uint8_t *row, size_t x, int n, uint16_t *out)
{
	for (uint32_t i = 0; i < (uint32_t)n; i++) {
		uint64_t index = sample_at(t, row, x + i);
		for (uint32_t k = 0; k < 3; k++) /* 16 bits: a later conversion to 8 rounds, as in DALI; Pillow drops the lower 8 bits */
			out[3 * i + k] = (uint16_t)(stk__tiff_value(t, &t->colors, ((uint64_t)k << t->bits) + index) * t->color_scale);
	}
}

/* Loads the first `samples` samples of n pixels, from column x of a chunk's row on, as elements of type dtype_of(t). */
static void load_pixels(const struct stk_tiff *t, const uint8_t *const *rows, size_t x, int n, uint32_t samples, void *out)
{
	uint8_t *to8 = out;
	uint16_t *to16 = out;
	uint32_t *to32 = out;
	uint32_t invert = t->photometric == STK_TIFF_WHITE_IS_ZERO ? t->bits == 16 ? 65535 : 255 : 0;
	for (uint32_t i = 0; i < (uint32_t)n; i++) {
		for (uint32_t k = 0; k < samples; k++) {
			uint32_t v = t->separate ? sample_at(t, rows[k], x + i) : sample_at(t, rows[0], (x + i) * t->samples + k);
			v ^= k == 0 ? invert : 0;
			if (t->bits == 32)
				to32[samples * i + k] = v;
			else if (t->bits == 16)
				to16[samples * i + k] = (uint16_t)v;
			else
				to8[samples * i + k] = (uint8_t)v;
		}
	}
}

/* Returns whether load_pixels would store the bytes of a row as they are in the file. */
static bool is_direct(const struct stk_tiff *t)
{
	bool native = t->bits == 8 || (t->bits > 8 && t->little == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__));
	return native && !t->separate && t->photometric != STK_TIFF_PALETTE && t->photometric != STK_TIFF_WHITE_IS_ZERO;
}

/* Returns the number of samples of each pixel that a decode needs. If there are five or more, the first three are the colours. */
static uint32_t samples_kept(const struct stk_tiff *t, enum stk_image_type type)
{
	return t->samples > 4 && type != STK_ANY_DATA ? 3 : t->samples;
}

static void convert(const struct stk_tiff *t, uint32_t samples, const void *pixels, const struct stk_decode *rq, void *to, int n)
{
	if (rq->type == STK_ANY_DATA && t->photometric != STK_TIFF_PALETTE) /* each sample is converted as gray */
		stk__convert_row(STK_PIXELS_GRAY, dtype_of(t), pixels, rq->type, rq->dst.dtype, to, n * (int)samples, STK_GRAY_ROUNDED);
	else
		stk__convert_row(pixels_of(t, samples), dtype_of(t), pixels, rq->type, rq->dst.dtype, to, n, STK_GRAY_ROUNDED);
}

/* Converts columns x0 to x1 - 1 of row y of the image, from a chunk whose upper left pixel is (left, top). */
static void put_row(const struct stk_tiff *t, const struct unpacked *u, uint32_t left, uint32_t top, int32_t x0, int32_t x1, int32_t y,
	const struct stk_decode *rq)
{
	uint32_t pixels[STK_TIFF_MOST_SAMPLES * CHUNK], samples = samples_kept(t, rq->type);
	const uint8_t *rows[STK_TIFF_MOST_SAMPLES];
	for (uint32_t p = 0; p < planes_of(t); p++)
		rows[p] = u->plane[p] + stk__tiff_row_bytes(t) * ((uint32_t)y - top);
	uint8_t *to = (uint8_t *)rq->dst.data + (y - rq->window.y) * rq->dst.row + (x0 - rq->window.x) * rq->dst.pixel;
	const uint8_t *first = rows[0] + ((uint32_t)x0 - left) * (size_t)t->samples * (t->bits / 8);
	if (is_direct(t) && samples == t->samples && (uintptr_t)first % stk_dtype_size(dtype_of(t)) == 0) {
		convert(t, samples, first, rq, to, x1 - x0);
		return;
	}
	for (int32_t x = x0; x < x1; x += CHUNK, to += CHUNK * rq->dst.pixel) {
		int n = x1 - x < CHUNK ? x1 - x : CHUNK;
		if (t->photometric == STK_TIFF_PALETTE)
			load_colors(t, rows[0], (uint32_t)x - left, n, (uint16_t *)pixels);
		else
			load_pixels(t, rows, (uint32_t)x - left, n, samples, pixels);
		convert(t, samples, pixels, rq, to, n);
	}
}

static enum stk_status decode_chunk(
	const struct stk_tiff *t, uint64_t column, uint64_t line, struct unpacked *u, const struct stk_decode *rq, struct stk_error *err)
{
	const struct stk_rect *w = &rq->window;
	uint32_t left = (uint32_t)column * t->chunk_width, top = (uint32_t)line * t->chunk_height, rows_left = (uint32_t)t->height - top;
	u->rows = t->tiled || rows_left > t->chunk_height ? t->chunk_height : rows_left;
	for (uint32_t p = 0; p < planes_of(t); p++) {
		enum stk_status s = unpack_plane(t, (p * t->down + line) * t->across + column, p, u, err);
		if (s)
			return s;
	}
	int64_t right = (int64_t)left + t->chunk_width, bottom = (int64_t)top + t->chunk_height;
	int32_t x0 = (int32_t)left > w->x ? (int32_t)left : w->x, x1 = right < w->x + w->w ? (int32_t)right : w->x + w->w;
	int32_t y0 = (int32_t)top > w->y ? (int32_t)top : w->y, y1 = bottom < w->y + w->h ? (int32_t)bottom : w->y + w->h;
	for (int32_t y = y0; y < y1 && !stk__cancelled(rq->cancel); y++)
		put_row(t, u, left, top, x0, x1, y, rq);
	return STK_OK;
}

static enum stk_status tiff_decode(struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	struct stk_tiff t;
	struct unpacked u = {0};
	const struct stk_rect *w = &rq->window;
	enum stk_status s = stk__tiff_read(rq->data, rq->size, &t, err);
	if (s)
		return s;
	if (t.width != rq->info->width || t.height != rq->info->height || channels_of(&t) != rq->info->channels)
		return stk__fail(err, STK_INVALID, "the image's info was read from another image");
	if ((s = check_whole(&t, err)) || (s = take_memory(&t, d->scratch, rq->cancel, &u, err)))
		return s;
	uint64_t first = (uint32_t)w->x / t.chunk_width, last = (uint32_t)(w->x + w->w - 1) / t.chunk_width;
	for (uint64_t y = (uint32_t)w->y / t.chunk_height; y <= (uint32_t)(w->y + w->h - 1) / t.chunk_height; y++)
		for (uint64_t x = first; x <= last && !stk__cancelled(rq->cancel); x++)
			if ((s = decode_chunk(&t, x, y, &u, rq, err)))
				return s;
	return STK_OK;
}

static const char *const endings[] = {"tif", "tiff", NULL};

const struct stk_codec stk__codec_tiff = {"tiff", "TIFF", endings, false, stk__tiff_probe, tiff_peek, tiff_decode};
