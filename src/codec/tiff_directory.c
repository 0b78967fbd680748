/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/tiff_directory.h"

#include "codec/bytes.h"
#include "codec/exif.h"

#include <string.h>

enum type {
	TYPE_BYTE = 1,
	TYPE_SHORT = 3,
	TYPE_LONG = 4,
	TYPE_SIGNED_BYTE = 6,
	TYPE_SIGNED_SHORT = 8,
	TYPE_SIGNED_LONG = 9,
	TYPE_DIRECTORY = 13,
	TYPE_LONG8 = 16,
	TYPE_SIGNED_LONG8 = 17,
	TYPE_DIRECTORY8 = 18
};
enum tag {
	TAG_WIDTH = 256,
	TAG_HEIGHT = 257,
	TAG_BITS = 258,
	TAG_COMPRESSION = 259,
	TAG_PHOTOMETRIC = 262,
	TAG_FILL_ORDER = 266,
	TAG_STRIP_OFFSETS = 273,
	TAG_ORIENTATION = 274,
	TAG_SAMPLES = 277,
	TAG_ROWS = 278,
	TAG_STRIP_COUNTS = 279,
	TAG_PLANES = 284,
	TAG_PREDICTOR = 317,
	TAG_COLORS = 320,
	TAG_TILE_WIDTH = 322,
	TAG_TILE_HEIGHT = 323,
	TAG_TILE_OFFSETS = 324,
	TAG_TILE_COUNTS = 325,
	TAG_INK_SET = 332,
	TAG_FORMAT = 339
};
/* Maximum number of pixels in a tile that has more pixels than the image. */
#define MOST_TILE_PIXELS (UINT64_C(1) << 24)

bool stk__tiff_probe(const uint8_t *data, size_t size)
{
	static const uint8_t signatures[4][4] = {{'I', 'I', 42, 0}, {'M', 'M', 0, 42}, {'I', 'I', 43, 0}, {'M', 'M', 0, 43}};
	for (int i = 0; i < 4; i++)
		if (size >= 4 && memcmp(data, signatures[i], 4) == 0)
			return true;
	return false;
}

static uint64_t get_number(const struct stk_tiff *t, const uint8_t *p, size_t bytes)
{
	switch (bytes) {
	case 1:
		return *p;
	case 2:
		return stk__get16(p, t->little);
	case 4:
		return stk__get32(p, t->little);
	default:
		return stk__get64(p, t->little);
	}
}

/* Returns the size in bytes of a value, or 0 if the type is not an integer type. Negative values are read as large numbers, which no entry may have. */
static size_t size_of_type(uint32_t type)
{
	switch (type) {
	case TYPE_BYTE:
	case TYPE_SIGNED_BYTE:
		return 1;
	case TYPE_SHORT:
	case TYPE_SIGNED_SHORT:
		return 2;
	case TYPE_LONG:
	case TYPE_SIGNED_LONG:
	case TYPE_DIRECTORY:
		return 4;
	case TYPE_LONG8:
	case TYPE_SIGNED_LONG8:
	case TYPE_DIRECTORY8:
		return 8;
	default:
		return 0;
	}
}

uint64_t stk__tiff_value(const struct stk_tiff *t, const struct stk_tiff_values *v, uint64_t i)
{
	size_t bytes = size_of_type(v->type);
	return get_number(t, v->at + i * bytes, bytes);
}

uint64_t stk__tiff_row_bytes(const struct stk_tiff *t)
{
	return ((uint64_t)t->chunk_width * (t->separate ? 1 : t->samples) * t->bits + 7) / 8;
}

uint64_t stk__tiff_chunk_bytes(const struct stk_tiff *t)
{
	return stk__tiff_row_bytes(t) * t->chunk_height;
}

uint64_t stk__tiff_count(const struct stk_tiff *t, uint64_t i)
{
	if (t->counts.count)
		return stk__tiff_value(t, &t->counts, i);
	uint64_t at = stk__tiff_value(t, &t->offsets, i), left = at < t->size ? t->size - at : 0;
	uint64_t first = i / t->across % t->down * t->chunk_height, rows = (uint64_t)t->height - first;
	if (t->compression != STK_TIFF_NONE)
		return left;
	return stk__tiff_row_bytes(t) * (t->tiled || rows > t->chunk_height ? t->chunk_height : rows);
}

/* The entries that an image may have. An entry of another type than an integer is refused, except for an orientation, which is then ignored, as in EXIF
 * data. */
struct entries {
	struct stk_tiff_values width, height, bits, compression, photometric, fill_order, strip_offsets, orientation, samples, rows,
		strip_counts, planes, predictor, colors, tile_width, tile_height, tile_offsets, tile_counts, ink_set, format;
};

static struct stk_tiff_values *entry_of(struct entries *e, uint32_t tag)
{
	struct {
		enum tag tag;
		struct stk_tiff_values *values;
	} const table[] = {{TAG_WIDTH, &e->width}, {TAG_HEIGHT, &e->height}, {TAG_BITS, &e->bits}, {TAG_COMPRESSION, &e->compression},
		{TAG_PHOTOMETRIC, &e->photometric}, {TAG_FILL_ORDER, &e->fill_order}, {TAG_STRIP_OFFSETS, &e->strip_offsets},
		{TAG_ORIENTATION, &e->orientation}, {TAG_SAMPLES, &e->samples}, {TAG_ROWS, &e->rows}, {TAG_STRIP_COUNTS, &e->strip_counts},
		{TAG_PLANES, &e->planes}, {TAG_PREDICTOR, &e->predictor}, {TAG_COLORS, &e->colors}, {TAG_TILE_WIDTH, &e->tile_width},
		{TAG_TILE_HEIGHT, &e->tile_height}, {TAG_TILE_OFFSETS, &e->tile_offsets}, {TAG_TILE_COUNTS, &e->tile_counts},
		{TAG_INK_SET, &e->ink_set}, {TAG_FORMAT, &e->format}};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].tag == tag)
			return table[i].values;
	return NULL;
}

static enum stk_status read_entry(const struct stk_tiff *t, const uint8_t *entry, struct entries *e, struct stk_error *err)
{
	uint32_t tag = stk__get16(entry, t->little);
	struct stk_tiff_values *values = entry_of(e, tag), v;
	size_t offset_size = t->big ? 8 : 4;
	v.type = stk__get16(entry + 2, t->little);
	v.count = get_number(t, entry + 4, offset_size);
	v.at = entry + 4 + offset_size;
	size_t bytes = tag == TAG_ORIENTATION ? stk__exif_type_size(v.type) : size_of_type(v.type);
	/* If a tag occurs more than once, its first entry counts, as in libtiff. */
	if (!values || values->count || (tag == TAG_ORIENTATION && !bytes))
		return STK_OK;
	if (!bytes)
		return stk__fail(err, STK_CORRUPT, "a TIFF whose entry %u has type %u, which is not an integer type", tag, v.type);
	if (v.count > offset_size / bytes) {
		uint64_t at = get_number(t, v.at, offset_size);
		if (at > t->size || v.count > (t->size - at) / bytes)
			return stk__fail(err, STK_CORRUPT,
				"a truncated TIFF: what entry %u of its directory refers to is not in its %zu bytes", tag, t->size);
		v.at = t->data + at;
	}
	*values = v;
	return STK_OK;
}

static enum stk_status read_entries(const struct stk_tiff *t, struct entries *e, struct stk_error *err)
{
	size_t offset_size = t->big ? 8 : 4, head = t->big ? 8 : 2, bytes = 4 + 2 * offset_size;
	uint64_t at = t->size >= 16 ? get_number(t, t->data + (t->big ? 8 : 4), offset_size) : UINT64_MAX;
	if (at > t->size || t->size - at < head)
		return stk__fail(err, STK_CORRUPT, "a truncated TIFF: its directory is not in its %zu bytes", t->size);
	uint64_t count = get_number(t, t->data + at, head);
	at += head;
	if (count > (t->size - at) / bytes)
		return stk__fail(err, STK_CORRUPT, "a truncated TIFF: the %llu entries of its directory are not in its %zu bytes",
			(unsigned long long)count, t->size);
	enum stk_status s = STK_OK;
	for (uint64_t i = 0; i < count && !s; i++)
		s = read_entry(t, t->data + at + i * bytes, e, err);
	return s;
}

/* Returns the value of an entry that must be the same for all samples of a pixel, or `absent` without such an entry. If values are too large or differ,
 * returns 2^32 - 1. */
static uint32_t value_or(const struct stk_tiff *t, const struct stk_tiff_values *v, uint32_t absent)
{
	if (v->count == 0)
		return absent;
	uint64_t first = stk__tiff_value(t, v, 0);
	for (uint64_t i = 1; i < v->count && i < STK_TIFF_MOST_SAMPLES; i++)
		if (stk__tiff_value(t, v, i) != first)
			return UINT32_MAX;
	return first > UINT32_MAX ? UINT32_MAX : (uint32_t)first;
}

static enum stk_status check_compression(uint32_t compression, struct stk_error *err)
{
	static const struct {
		uint32_t number;
		const char *name;
	} unsupported[] = {{2, "CCITT's run lengths"}, {3, "CCITT's fax, group 3"}, {4, "CCITT's fax, group 4"}, {6, "JPEG, the old way"},
		{7, "JPEG"}, {34712, "JPEG 2000"}, {34887, "LERC"}, {34925, "LZMA"}, {50000, "Zstandard"}, {50001, "WebP"}};
	switch (compression) {
	case STK_TIFF_NONE:
	case STK_TIFF_LZW:
	case STK_TIFF_DEFLATE:
	case STK_TIFF_OLD_DEFLATE:
	case STK_TIFF_PACKBITS:
		return STK_OK;
	}
	for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
		if (unsupported[i].number == compression)
			return stk__fail(err, STK_UNSUPPORTED,
				"a TIFF compressed by %s; save it uncompressed, or by LZW, deflate or PackBits", unsupported[i].name);
	return stk__fail(
		err, STK_UNSUPPORTED, "a TIFF of compression %u; save it uncompressed, or by LZW, deflate or PackBits", compression);
}

#define SAVE_AS "save it as gray or RGB of 8 or 16 bits"
#define SAVE_NUMBERS "save it as unsigned integers of 8 or 16 bits, signed ones of 16, or floats of 32"

static enum stk_status check_photometric(uint32_t photometric, struct stk_error *err)
{
	static const struct {
		uint32_t number;
		const char *name;
	} unsupported[] = {{4, "a transparency mask"}, {6, "YCbCr"}, {8, "CIE L*a*b*"}, {9, "ICC L*a*b*"}, {10, "ITU L*a*b*"},
		{32803, "a colour filter array (a camera's raw data)"}, {32844, "LogL"}, {32845, "LogLuv"},
		{34892, "linear raw data of a camera"}};
	if (photometric <= STK_TIFF_PALETTE || photometric == STK_TIFF_CMYK)
		return STK_OK;
	if (photometric == UINT32_MAX)
		return stk__fail(
			err, STK_CORRUPT, "a TIFF that does not say what its samples are (PhotometricInterpretation); save it again");
	for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
		if (unsupported[i].number == photometric)
			return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %s (photometric interpretation %u); " SAVE_AS,
				unsupported[i].name, photometric);
	return stk__fail(err, STK_UNSUPPORTED, "a TIFF of photometric interpretation %u; " SAVE_AS, photometric);
}

/* Refuses numbers of bits and samples that are not supported. `kinds` lists for each photometric interpretation the allowed bits of a sample, as a mask of
 * (1 << bits), and the number of samples without and with alpha. */
static enum stk_status check_samples(const struct stk_tiff *t, struct stk_error *err)
{
	enum { PARTS = 1 << 1 | 1 << 2 | 1 << 4, WHOLE = 1 << 8 | 1 << 16 };
	static const struct {
		const char *name;
		uint32_t bits, samples, alpha; /* alpha: number of samples including an alpha channel; 0: it is not allowed */
	} kinds[] = {[STK_TIFF_WHITE_IS_ZERO] = {"gray", PARTS | WHOLE, 1, 2},
		[STK_TIFF_BLACK_IS_ZERO] = {"gray", PARTS | WHOLE, 1, 2},
		[STK_TIFF_RGB] = {"RGB", WHOLE, 3, 4},
		[STK_TIFF_PALETTE] = {"a palette", PARTS | 1 << 8, 1, 0},
		[STK_TIFF_CMYK] = {"CMYK", 1 << 8, 4, 0}};
	const char *name = kinds[t->photometric].name;
	bool colors = t->photometric == STK_TIFF_BLACK_IS_ZERO || t->photometric == STK_TIFF_RGB;
	if (t->bits == UINT32_MAX)
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %s whose samples have different numbers of bits; " SAVE_AS, name);
	if (t->format != STK_TIFF_UNSIGNED && !colors)
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %s of floats or signed integers; " SAVE_AS ", without a sign", name);
	if (t->format != STK_TIFF_UNSIGNED && t->bits != (t->format == STK_TIFF_FLOAT ? 32 : 16))
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %s of %u bits; " SAVE_NUMBERS,
			t->format == STK_TIFF_FLOAT ? "floats" : "signed integers", t->bits);
	if (t->format == STK_TIFF_UNSIGNED && (t->bits > 16 || !(kinds[t->photometric].bits >> t->bits & 1)))
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %s of %u bits a sample; " SAVE_AS, name, t->bits);
	if (colors && t->bits >= 8 && t->samples >= kinds[t->photometric].samples && t->samples <= STK_TIFF_MOST_SAMPLES)
		return STK_OK; /* more bands may follow the colours of gray and RGB */
	if (colors && t->samples > STK_TIFF_MOST_SAMPLES)
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %u samples a pixel, which may have up to %d; save it in several files",
			t->samples, STK_TIFF_MOST_SAMPLES);
	if (t->samples == kinds[t->photometric].samples || (t->samples == kinds[t->photometric].alpha && t->bits >= 8))
		return STK_OK;
	return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %s with %u samples a pixel, of %u bits%s; " SAVE_AS, name, t->samples, t->bits,
		t->samples == kinds[t->photometric].samples + 1 ? " (one is alpha)" : "");
}

static enum stk_status check_kind(struct stk_tiff *t, const struct entries *e, struct stk_error *err)
{
	enum stk_status s = check_compression(t->compression, err);
	if (s || (s = check_photometric(t->photometric, err)))
		return s;
	uint32_t format = value_or(t, &e->format, 1), predictor = value_or(t, &e->predictor, 1), inks = value_or(t, &e->ink_set, 1);
	if (format == 0 || format > 4) /* 4 means "undefined", which is read as unsigned */
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of %s; " SAVE_NUMBERS,
			format == 5 || format == 6 ? "complex numbers" : "samples of different types");
	t->format = format == 4 ? STK_TIFF_UNSIGNED : (enum stk_tiff_format)format;
	if ((s = check_samples(t, err)))
		return s;
	if (t->photometric == STK_TIFF_CMYK && inks != 1)
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of inks other than CMYK (InkSet %u); " SAVE_AS, inks);
	if (value_or(t, &e->fill_order, 1) != 1)
		return stk__fail(err, STK_UNSUPPORTED, "a TIFF of reversed bits (FillOrder 2); save it with FillOrder 1");
	if (predictor > 3 || (predictor == STK_TIFF_DIFFERENCES && t->bits < 8) ||
		(predictor == STK_TIFF_BYTE_DIFFERENCES && t->format != STK_TIFF_FLOAT))
		return stk__fail(
			err, STK_UNSUPPORTED, "a TIFF of predictor %u over %u bits; save it without a predictor", predictor, t->bits);
	if (t->photometric == STK_TIFF_PALETTE && e->colors.count < 3ull << t->bits)
		return stk__fail(
			err, STK_CORRUPT, "a TIFF whose palette has %llu of %u values", (unsigned long long)e->colors.count, 3u << t->bits);
	return STK_OK;
}

/* Reads the palette. Colours should have 16 bits, but some writers store 8. As in libtiff, they are assumed to have 8 bits if none is above 255. */
static enum stk_status read_colors(struct stk_tiff *t, struct stk_error *err)
{
	uint64_t most = 0;
	for (uint64_t i = 0; i < 3ull << t->bits; i++) {
		uint64_t value = stk__tiff_value(t, &t->colors, i);
		most = value > most ? value : most;
	}
	t->color_scale = most > 255 ? 1 : 257;
	return most <= 65535 ? STK_OK : stk__fail(err, STK_CORRUPT, "a TIFF whose palette has a value of %llu", (unsigned long long)most);
}

/* Finds the size, number and offsets of the strips or tiles. Fails if these are empty, too large, too few, or mostly outside of the image. */
static enum stk_status place_chunks(struct stk_tiff *t, const struct entries *e, struct stk_error *err)
{
	uint64_t width = (uint64_t)t->width, height = (uint64_t)t->height;
	t->tiled = e->tile_offsets.count > 0;
	t->offsets = t->tiled ? e->tile_offsets : e->strip_offsets;
	/* Some writers store the byte counts of tiles under the tag for those of strips. */
	t->counts = t->tiled && e->tile_counts.count ? e->tile_counts : e->strip_counts;
	t->chunk_width = t->tiled ? value_or(t, &e->tile_width, 0) : (uint32_t)width;
	t->chunk_height = value_or(t, t->tiled ? &e->tile_height : &e->rows, t->tiled ? 0 : UINT32_MAX);
	if (!t->tiled && t->chunk_height > height)
		t->chunk_height = (uint32_t)height;
	if (!t->chunk_width || !t->chunk_height)
		return stk__fail(err, STK_CORRUPT, "a TIFF of strips or tiles without pixels");
	uint64_t pixels = (uint64_t)t->chunk_width * t->chunk_height;
	if ((t->tiled && pixels > MOST_TILE_PIXELS && pixels / width > height) || stk__tiff_row_bytes(t) > UINT32_MAX ||
		stk__tiff_chunk_bytes(t) / t->chunk_height != stk__tiff_row_bytes(t) || stk__tiff_chunk_bytes(t) > UINT32_MAX)
		return stk__fail(err, STK_LIMIT, "a TIFF of strips or tiles of %u x %u pixels", t->chunk_width, t->chunk_height);
	t->across = (width + t->chunk_width - 1) / t->chunk_width;
	t->down = (height + t->chunk_height - 1) / t->chunk_height;
	/* Tiles may share their bytes, so without this limit a small file could have millions of them. */
	if (t->tiled && t->across * t->down > (MOST_TILE_PIXELS + 3 * width * height) / pixels + 1)
		return stk__fail(err, STK_LIMIT, "a TIFF of tiles of %u x %u pixels, most of them outside the image", t->chunk_width,
			t->chunk_height);
	uint64_t planes = t->separate ? t->samples : 1, listed = t->offsets.count;
	if (t->counts.count && t->counts.count < listed)
		listed = t->counts.count;
	if (t->across * t->down > listed / planes)
		return stk__fail(err, STK_CORRUPT, "a TIFF that gives the places of only %llu of its %llu %s", (unsigned long long)listed,
			(unsigned long long)(t->across * t->down * planes), t->tiled ? "tiles" : "strips");
	return STK_OK;
}

enum stk_status stk__tiff_read(const uint8_t *data, size_t size, struct stk_tiff *t, struct stk_error *err)
{
	struct entries e = {0};
	*t = (struct stk_tiff){.data = data, .size = size, .little = data[0] == 'I'};
	t->big = stk__get16(data + 2, t->little) == 43;
	enum stk_status s = read_entries(t, &e, err);
	if (s)
		return s;
	uint32_t width = value_or(t, &e.width, 0), height = value_or(t, &e.height, 0);
	if (!width || !height || width > INT32_MAX || height > INT32_MAX)
		return stk__fail(err, STK_CORRUPT, "a TIFF of %u x %u pixels", width, height);
	t->width = (int32_t)width;
	t->height = (int32_t)height;
	t->bits = value_or(t, &e.bits, 1);
	t->samples = value_or(t, &e.samples, 1);
	t->compression = value_or(t, &e.compression, STK_TIFF_NONE);
	t->photometric = value_or(t, &e.photometric, UINT32_MAX);
	t->colors = e.colors;
	t->separate = t->samples > 1 && value_or(t, &e.planes, 1) == 2;
	int orientation = e.orientation.count ? stk__exif_orientation_value(e.orientation.at, e.orientation.type, t->little) : 0;
	t->orientation = orientation ? orientation : 1;
	if ((s = check_kind(t, &e, err)))
		return s;
	if (t->photometric == STK_TIFF_PALETTE && (s = read_colors(t, err)))
		return s;
	bool applies = t->compression == STK_TIFF_LZW || t->compression == STK_TIFF_DEFLATE || t->compression == STK_TIFF_OLD_DEFLATE;
	t->predictor = applies ? (enum stk_tiff_predictor)value_or(t, &e.predictor, STK_TIFF_NO_PREDICTOR) : STK_TIFF_NO_PREDICTOR;
	return place_chunks(t, &e, err);
}
