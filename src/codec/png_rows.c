/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/png_rows.h"

#include "codec/bytes.h"

#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { SIGNATURE = 8, CHUNK_FRAME = 12 };
#define MOST                                                                                                                               \
	((size_t)32                                                                                                                        \
		<< 20) /* maximum size of a file, and of its pixels, in bytes: libdeflate takes some tens of milliseconds for this size and
		        * cannot be cancelled */

struct bytes {
	const uint8_t *data;
	size_t size;
};

/* ---- the zlib stream, which is divided into chunks ---- */

/* Reads the chunk at *at: sets *type to the address of its four letters, and *contents. Moves *at to the next chunk. Does not check the checksum. Returns false
 * if the file ends inside the chunk. */
static bool next_chunk(struct bytes file, size_t *at, const uint8_t **type, struct bytes *contents)
{
	if (file.size - *at < CHUNK_FRAME)
		return false;
	size_t length = stk__get32(file.data + *at, false);
	if (length > file.size - *at - CHUNK_FRAME)
		return false;
	*type = file.data + *at + 4;
	*contents = (struct bytes){*type + 4, length};
	*at += CHUNK_FRAME + length;
	return true;
}

static bool checksum_is_right(const uint8_t *type, struct bytes contents)
{
	return libdeflate_crc32(0, type, 4 + contents.size) == stk__get32(contents.data + contents.size, false);
}

static bool is(const uint8_t *type, const char *name)
{
	return memcmp(type, name, 4) == 0;
}

/* Finds the chunks of pixels and returns their number. Sets `*first` to the offset of the first one and `*total` to the size in bytes of their contents.
 * Returns 0 if a chunk is incomplete, if a checksum is wrong, or if an empty end chunk does not follow them. */
static size_t find_pixels(struct bytes file, size_t *first, size_t *total)
{
	const uint8_t *type;
	struct bytes contents;
	size_t at = SIGNATURE, count = 0;
	*total = 0;
	do {
		*first = at;
		if (!next_chunk(file, &at, &type, &contents))
			return 0;
	} while (!is(type, "IDAT"));
	for (; is(type, "IDAT"); count++) {
		*total += contents.size;
		if (!checksum_is_right(type, contents) || !next_chunk(file, &at, &type, &contents))
			return 0;
	}
	return is(type, "IEND") && !contents.size && checksum_is_right(type, contents) ? count : 0;
}

/* Returns the zlib stream in one piece: in the file if it has one chunk of pixels, otherwise in memory from the arena. `data` is NULL if memory runs out. */
static struct bytes join_pixels(struct bytes file, size_t first, size_t count, size_t total, struct stk_arena *scratch)
{
	const uint8_t *type;
	struct bytes contents;
	if (count == 1 && next_chunk(file, &first, &type, &contents))
		return contents;
	uint8_t *joined = stk__arena_take(scratch, total);
	for (size_t end = 0; joined && count > 0 && next_chunk(file, &first, &type, &contents); count--) {
		memcpy(joined + end, contents.data, contents.size);
		end += contents.size;
	}
	return (struct bytes){joined, total};
}

/* ---- Filters: https://www.w3.org/TR/png-3/#9Filters ----
 * `above` is the row above. Bytes left of the first pixel count as 0. */

static void undo_up(uint8_t *restrict row, const uint8_t *restrict above, size_t size)
{
	for (size_t i = 0; i < size; i++)
		row[i] = (uint8_t)(row[i] + above[i]);
}

static uint8_t paeth(int left, int up, int up_left)
{
	int by_left = abs(up - up_left), by_up = abs(left - up_left), by_up_left = abs(left + up - 2 * up_left);
	if (by_left <= by_up && by_left <= by_up_left)
		return (uint8_t)left;
	return (uint8_t)(by_up <= by_up_left ? up : up_left);
}

static void undo_sub_bytes(uint8_t *row, size_t size, size_t pixel)
{
	for (size_t i = pixel; i < size; i++)
		row[i] = (uint8_t)(row[i] + row[i - pixel]);
}

static void undo_average_bytes(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
	for (size_t i = 0; i < size; i++)
		row[i] = (uint8_t)(row[i] + ((i < pixel ? 0 : row[i - pixel]) + above[i]) / 2);
}

static void undo_paeth_bytes(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
	for (size_t i = 0; i < size; i++)
		row[i] = (uint8_t)(row[i] + (i < pixel ? above[i] : paeth(row[i - pixel], above[i], above[i - pixel])));
}

#ifdef __SSE2__
/* Filters for pixels of 3 or 4 bytes, which compute all bytes of a pixel at once. They may read past the end of a row, so bytes after it must be readable. */

static inline __m128i load_pixel(const uint8_t *p)
{
	int v;
	memcpy(&v, p, sizeof v);
	return _mm_cvtsi32_si128(v);
}

static inline void store_pixel(uint8_t *p, __m128i pixel, size_t size)
{
	int v = _mm_cvtsi128_si32(pixel);
	memcpy(p, &v, size);
}

static inline void undo_sub_pixels(uint8_t *row, size_t size, size_t pixel)
{
	__m128i left = _mm_setzero_si128();
	for (size_t i = 0; i < size; i += pixel) {
		left = _mm_add_epi8(left, load_pixel(row + i));
		store_pixel(row + i, left, pixel);
	}
}

static inline void undo_average_pixels(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
	__m128i left = _mm_setzero_si128(), ones = _mm_set1_epi8(1);
	for (size_t i = 0; i < size; i += pixel) {
		__m128i up = load_pixel(above + i);
		/* pavgb rounds up, but the filter rounds down */
		__m128i mean = _mm_sub_epi8(_mm_avg_epu8(left, up), _mm_and_si128(_mm_xor_si128(left, up), ones));
		left = _mm_add_epi8(load_pixel(row + i), mean);
		store_pixel(row + i, left, pixel);
	}
}

static inline __m128i absolute(__m128i x)
{
	return _mm_max_epi16(x, _mm_sub_epi16(_mm_setzero_si128(), x));
}

static inline __m128i choose(__m128i mask, __m128i yes, __m128i no)
{
	return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

/* Undoes the PAETH filter. Each byte of a pixel becomes a word of 16 bits, since differences need a sign. */
static inline void undo_paeth_pixels(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
	const __m128i zero = _mm_setzero_si128();
	__m128i left = zero, up_left = zero;
	for (size_t i = 0; i < size; i += pixel) {
		__m128i up = _mm_unpacklo_epi8(load_pixel(above + i), zero), own = _mm_unpacklo_epi8(load_pixel(row + i), zero);
		__m128i by_left = _mm_sub_epi16(up, up_left), by_up = _mm_sub_epi16(left, up_left);
		__m128i by_up_left = absolute(_mm_add_epi16(by_left, by_up));
		by_left = absolute(by_left);
		by_up = absolute(by_up);
		__m128i least = _mm_min_epi16(by_up_left, _mm_min_epi16(by_left, by_up));
		__m128i nearest = choose(_mm_cmpeq_epi16(least, by_left), left, choose(_mm_cmpeq_epi16(least, by_up), up, up_left));
		left = _mm_add_epi8(own, nearest); /* the high bytes stay 0 */
		up_left = up;
		store_pixel(row + i, _mm_packus_epi16(left, left), pixel);
	}
}

#endif

enum filter { NONE, SUB, UP, AVERAGE, PAETH };

/* Undoes the filter of a row whose pixels have `pixel` bytes, any number. */
static void undo_bytes(enum filter filter, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
	if (filter == SUB)
		undo_sub_bytes(row, size, pixel);
	else if (filter == UP)
		undo_up(row, above, size);
	else if (filter == AVERAGE)
		undo_average_bytes(row, above, size, pixel);
	else if (filter == PAETH)
		undo_paeth_bytes(row, above, size, pixel);
}

/* Undoes the filter of a row whose pixels have `pixel` bytes, 3 or 4. Callers pass a constant, so that the compiler makes a separate function for each. */
static inline void undo_pixels(enum filter filter, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
#ifdef __SSE2__
	if (filter == SUB)
		undo_sub_pixels(row, size, pixel);
	else if (filter == AVERAGE)
		undo_average_pixels(row, above, size, pixel);
	else if (filter == PAETH)
		undo_paeth_pixels(row, above, size, pixel);
	else
#endif
		undo_bytes(filter, row, above, size, pixel);
}

/* Undoes the filters of all rows in place. Returns false if a row has a filter that does not exist, or if the work was cancelled. */
static bool undo_filters(uint8_t *rows, struct stk_png_shape shape, const uint8_t *zeros, const struct stk_cancel *cancel)
{
	const uint8_t *above = zeros;
	for (size_t y = 0; y < shape.rows; y++) {
		uint8_t filter = rows[y * (1 + shape.row)], *row = rows + y * (1 + shape.row) + 1;
		if (filter > PAETH || stk__cancelled(cancel))
			return false;
		if (shape.pixel == 3)
			undo_pixels(filter, row, above, shape.row, 3);
		else if (shape.pixel == 4)
			undo_pixels(filter, row, above, shape.row, 4);
		else
			undo_bytes(filter, row, above, shape.row, shape.pixel);
		above = row;
	}
	return true;
}

/* ---- the whole image ---- */

/* Inflates a zlib stream. Returns false if memory runs out, if the stream does not end with the data, or if it does not unpack to exactly `size` bytes. */
static bool inflate_all(struct bytes stream, uint8_t *out, size_t size)
{
	struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
	size_t used = 0;
	bool ok = inflater &&
		  libdeflate_zlib_decompress_ex(inflater, stream.data, stream.size, out, size, &used, NULL) == LIBDEFLATE_SUCCESS &&
		  used == stream.size;
	if (inflater)
		libdeflate_free_decompressor(inflater);
	return ok;
}

size_t stk__png_rows_memory(size_t size, struct stk_png_shape shape)
{
	size_t unpacked;
	if (__builtin_mul_overflow(1 + shape.row, shape.rows, &unpacked) || unpacked > MOST || size > MOST)
		return 0;
	return stk__scratch_bytes(size) + stk__scratch_bytes(unpacked) + stk__scratch_bytes(shape.row);
}

uint8_t *stk__png_rows(
	const uint8_t *data, size_t size, struct stk_png_shape shape, struct stk_arena *scratch, const struct stk_cancel *cancel)
{
	struct bytes file = {data, size};
	size_t first, total, most = stk__png_rows_memory(size, shape), unpacked = (1 + shape.row) * shape.rows;
	if (!most || stk__arena_left(scratch) < most)
		return NULL;
	size_t count = find_pixels(file, &first, &total);
	if (!count)
		return NULL;
	struct bytes stream = join_pixels(file, first, count, total, scratch);
	uint8_t *rows = stk__arena_take(scratch, unpacked), *zeros = stk__arena_take(scratch, shape.row);
	if (!stream.data || !rows || !zeros || stk__cancelled(cancel))
		return NULL;
	memset(zeros, 0, shape.row + STK_ARENA_SLACK);
	return inflate_all(stream, rows, unpacked) && undo_filters(rows, shape, zeros, cancel) ? rows : NULL;
}
