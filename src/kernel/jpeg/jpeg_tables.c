/* SPDX-License-Identifier: Apache-2.0
 * Builds decoding tables code by code, in runs of equal entries. Many files have their own tables, so this is done for each file and must be fast. */
#include "kernel/jpeg/jpeg_tables.h"

#include <string.h>

enum { ZERO_RUN = 0xf0 }; /* 16 zeros; all other symbols of size 0 end the block */

static void build_codes(struct stk_jpeg_codes *c, const struct stk_jpeg_huffman *h)
{
	uint32_t code = 0;
	int32_t value = 0;
	for (int n = 1; n <= 16; n++) {
		c->offset[n] = value - (int32_t)code;
		code += h->counts[n - 1];
		value += h->counts[n - 1];
		c->limit[n] = code << (16 - n);
		code <<= 1;
	}
	memcpy(c->values, h->values, sizeof c->values);
}

/* A code and its meaning. */
struct code {
	uint8_t bits, symbol;
	uint8_t size;    /* number of extra bits after the code */
	uint8_t advance; /* number of positions to advance, or END */
	uint8_t zero;    /* index from the code's start of a bit that is 0; it exists, since no code has only ones */
};

/* All codes, the shortest first. */
struct code_list {
	int count;
	struct code code[256];
};

static void list_codes(struct code_list *list, const struct stk_jpeg_huffman *h)
{
	uint32_t bits_so_far = 0;
	list->count = 0;
	for (uint32_t n = 1; n <= 16; n++, bits_so_far <<= 1)
		for (int i = 0; i < h->counts[n - 1]; i++, bits_so_far++) {
			uint8_t symbol = h->values[list->count], size = symbol & 15, zero = 0;
			while (bits_so_far >> (n - 1 - zero) & 1)
				zero++;
			uint8_t advance = size || symbol == ZERO_RUN ? (uint8_t)((symbol >> 4) + 1) : STK_JPEG_END;
			list->code[list->count++] = (struct code){(uint8_t)n, symbol, size, advance, zero};
		}
}

/* Returns the value of `size` extra bits [F.2.2.1, EXTEND]. */
static int32_t extend(uint32_t extra, uint32_t size)
{
	return size && extra < 1u << (size - 1) ? (int32_t)extra - (1 << size) + 1 : (int32_t)extra;
}

/* ---- pairs ---- */

/* Returns entry e with c added as its second (or only) symbol. used: number of bits before the code of c. If c has no extra bits, the entry uses a bit of the
 * code that is 0 instead, which decodes to the value 0. */
static struct stk_jpeg_ac_entry with_second(struct stk_jpeg_ac_entry e, const struct code *c, uint32_t used)
{
	e.length = (uint8_t)(used + c->bits + c->size);
	e.advance = (uint8_t)(e.advance + c->advance);
	e.second_bits = (uint8_t)(used + (c->size ? c->bits : c->zero));
	e.second_shift = (uint8_t)(c->size ? 64 - c->size : 63);
	e.second_bias = (int16_t)(c->size ? 1 - (1 << c->size) : 0);
	return e;
}

static void fill_pairs(struct stk_jpeg_ac_table *t, uint32_t at, uint32_t count, struct stk_jpeg_ac_entry e)
{
	for (uint32_t i = 0; i < count; i++)
		t->pair[at + i] = e;
	memset(t->pair_length + at, e.length, count);
}

/* Fills the entries whose index begins with the code of `first` and the extra bits of its coefficient `value`. These entries begin at `at`; `left` bits of
 * the index follow the extra bits. Makes one run of entries for each second code that fits into these bits; the other entries have only `first`. */
static void fill_seconds(
	struct stk_jpeg_ac_table *t, const struct code_list *list, const struct code *first, int32_t value, uint32_t at, uint32_t left)
{
	struct stk_jpeg_ac_entry e = {.first_at = first->symbol >> 4, .first_value = (int8_t)value, .advance = first->advance};
	uint32_t end = at + (1u << left);
	for (int i = 0; i < list->count && list->code[i].bits <= left; i++) {
		uint32_t run = 1u << (left - list->code[i].bits);
		fill_pairs(t, at, run, with_second(e, &list->code[i], first->bits + (uint32_t)first->size));
		at += run;
	}
	fill_pairs(t, at, end - at, with_second((struct stk_jpeg_ac_entry){.first_at = 64}, first, 0));
}

void stk__jpeg_ac_table_build(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h)
{
	enum { BITS = STK_JPEG_PAIR_BITS, ALL = 1 << BITS };
	struct code_list list;
	uint32_t at = 0;
	list_codes(&list, h);
	build_codes(&t->codes, h);
	for (int i = 0; i < list.count && list.code[i].bits <= BITS; i++) {
		const struct code *c = &list.code[i];
		uint32_t width = 1u << (BITS - c->bits), used = (uint32_t)c->bits + c->size;
		memset(t->first_length + at, (int)used, width);
		if (used >= BITS || c->size > 7 || c->advance == STK_JPEG_END) {
			fill_pairs(t, at, width, with_second((struct stk_jpeg_ac_entry){.first_at = 64}, c, 0));
		} else {
			for (uint32_t extra = 0; extra < 1u << c->size; extra++)
				fill_seconds(t, &list, c, extend(extra, c->size), at + (extra << (BITS - used)), BITS - used);
		}
		at += width;
	}
	/* Entries for codes that are longer than an index or do not exist store nothing in the block. */
	fill_pairs(t, at, ALL - at, (struct stk_jpeg_ac_entry){.first_at = 64, .advance = 64, .second_shift = 63});
	memset(t->first_length + at, 0, ALL - at);
}

/* ---- skipping ---- */

/* For each index of a lookup: the number of bits, and of positions to advance, that all symbols in the entry take together. */
struct runs {
	uint8_t *length, *advance;
};

/* Sets `count` entries to the symbol c followed by the symbols of the same entry of `rest`, or to only c if all of them together would pass position 63
 * even if c is the first symbol of a block. */
static void join(struct runs to, struct runs rest, const struct code *c, uint32_t count)
{
	uint8_t used = (uint8_t)(c->bits + c->size), limit = (uint8_t)(64 - c->advance);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t fits = (uint8_t)((rest.advance[i] & (STK_JPEG_END - 1)) < limit ? 0xff : 0);
		to.length[i] = (uint8_t)(used + (rest.length[i] & fits));
		to.advance[i] = (uint8_t)(c->advance + (rest.advance[i] & fits));
	}
}

/* Fills the entries whose index of `bits` bits begins with code c. levels[v], the entries for indices of v bits, must be complete for all v below bits. */
static void fill_runs(struct runs to, const struct runs *levels, uint32_t bits, const struct code *c)
{
	uint32_t width = 1u << (bits - c->bits), used = (uint32_t)c->bits + c->size;
	if (used >= bits || c->advance == STK_JPEG_END) {
		memset(to.length, (int)used, width);
		memset(to.advance, c->advance, width);
		return;
	}
	uint32_t count = 1u << (bits - used);
	join(to, levels[bits - used], c, count);
	for (; count < width; count *= 2) { /* doubles the filled part: entries are the same for all values of the extra bits */
		memcpy(to.length + count, to.length, count);
		memcpy(to.advance + count, to.advance, count);
	}
}

void stk__jpeg_ac_table_build_skip(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h)
{
	enum { BITS = STK_JPEG_SKIP_BITS, ALL = 1 << BITS };
	uint8_t length[ALL], advance[ALL]; /* entries for indices of v < BITS bits; they begin at 2^v */
	struct code_list list;
	struct runs levels[BITS + 1];
	list_codes(&list, h);
	for (uint32_t v = 1; v <= BITS; v++) {
		uint32_t at = 0;
		levels[v] =
			v < BITS ? (struct runs){length + (1u << v), advance + (1u << v)} : (struct runs){t->skip_length, t->skip_advance};
		for (int i = 0; i < list.count && list.code[i].bits <= v; i++) {
			fill_runs((struct runs){levels[v].length + at, levels[v].advance + at}, levels, v, &list.code[i]);
			at += 1u << (v - list.code[i].bits);
		}
		memset(levels[v].length + at, 0, (1u << v) - at);
		memset(levels[v].advance + at, v < BITS ? 0 : 255, (1u << v) - at);
	}
}

/* ---- DC ---- */

void stk__jpeg_dc_table_build(struct stk_jpeg_dc_table *t, const struct stk_jpeg_huffman *h)
{
	enum { BITS = STK_JPEG_DC_BITS, ALL = 1 << BITS };
	struct code_list list;
	uint32_t at = 0;
	list_codes(&list, h);
	build_codes(&t->codes, h);
	for (int i = 0; i < list.count && list.code[i].bits <= BITS; i++) {
		const struct code *c = &list.code[i];
		for (uint32_t end = at + (1u << (BITS - c->bits)); at < end; at++) {
			t->entry[at] = (struct stk_jpeg_dc_entry){c->bits, c->size};
			t->length[at] = (uint8_t)(c->bits + c->size);
		}
	}
	memset(t->entry + at, 0, (ALL - at) * sizeof *t->entry);
	memset(t->length + at, 0, ALL - at);
}

/* ---- bands ---- */

/* Fills the entries for code c in a table for first scans. at: the first of these entries. */
static void fill_first(struct stk_jpeg_band_entry *at, const struct code *c)
{
	uint32_t left = STK_JPEG_BAND_BITS - c->bits;
	bool coefficient = c->size && c->size <= left, end = c->symbol == 0;
	struct stk_jpeg_band_entry e = {.advance = coefficient ? c->advance : end ? STK_JPEG_END : 255};
	e.length = (uint8_t)(coefficient ? c->bits + c->size : c->bits);
	for (uint32_t i = 0; i < 1u << left; i++) {
		if (coefficient)
			e.value = (int16_t)extend(i >> (left - c->size), c->size);
		at[i] = e;
	}
}

void stk__jpeg_band_table_build(struct stk_jpeg_band_table *t, const struct stk_jpeg_huffman *h, bool refinement)
{
	enum { BITS = STK_JPEG_BAND_BITS, ALL = 1 << BITS };
	struct code_list list;
	uint32_t at = 0;
	list_codes(&list, h);
	build_codes(&t->codes, h);
	for (int i = 0; i < list.count && list.code[i].bits <= BITS; i++) {
		const struct code *c = &list.code[i];
		uint32_t width = 1u << (BITS - c->bits);
		for (uint32_t k = 0; k < width; k++)
			t->symbol[at + k] = (struct stk_jpeg_symbol){c->bits, c->symbol};
		if (!refinement)
			fill_first(t->first + at, c);
		at += width;
	}
	for (; at < ALL; at++) {
		t->symbol[at] = (struct stk_jpeg_symbol){0, 0};
		t->first[at] = (struct stk_jpeg_band_entry){.advance = 255};
	}
}
