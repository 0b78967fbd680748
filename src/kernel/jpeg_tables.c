/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/jpeg_tables.h"

#include <string.h>

enum { ZERO_RUN = 0xf0 }; /* 16 zeros; other symbols of size 0 end the block */

/* For each value of the next `bits` bits: the code's length (0: longer, or no code) and its symbol. */
struct first {
	uint8_t length[1 << STK_JPEG_SKIP_BITS], symbol[1 << STK_JPEG_SKIP_BITS];
};

static void find_first(struct first *f, const struct stk_jpeg_huffman *h, uint32_t bits)
{
	uint32_t at = 0, value = 0;
	for (uint32_t n = 1; n <= bits; n++)
		for (int i = 0; i < h->counts[n - 1]; i++, value++) {
			uint32_t width = 1u << (bits - n);
			memset(f->length + at, (int)n, width);
			memset(f->symbol + at, h->values[value], width);
			at += width;
		}
	memset(f->length + at, 0, (1u << bits) - at);
	memset(f->symbol + at, 0, (1u << bits) - at);
}

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

static uint32_t size_of(uint8_t symbol)
{
	return symbol & 15;
}

static bool ends_block(uint8_t symbol)
{
	return size_of(symbol) == 0 && symbol != ZERO_RUN;
}

static uint32_t advance_of(uint8_t symbol)
{
	return ends_block(symbol) ? STK_JPEG_END : (symbol >> 4) + 1u;
}

/* The value of `size` extra bits [F.2.2.1, EXTEND]. */
static int32_t extend(uint32_t extra, uint32_t size)
{
	return size && extra < 1u << (size - 1) ? (int32_t)extra - (1 << size) + 1 : (int32_t)extra;
}

/* The second (or only) symbol of an entry, whose code ends `before` bits into the index. */
static void set_second(struct stk_jpeg_ac_entry *e, uint8_t symbol, uint32_t before, uint32_t index)
{
	uint32_t size = size_of(symbol);
	e->length = (uint8_t)(before + size);
	e->advance = (uint8_t)(e->advance + advance_of(symbol));
	e->second_bits = (uint8_t)before;
	e->second_shift = (uint8_t)(64 - size);
	e->second_bias = (int16_t)(1 - (1 << size));
	if (size)
		return;
	/* A value of 0 for zero runs and ends: the one bit that is taken must be a 0 of the index. Where the index has none there is no valid code. */
	uint32_t zero = 0;
	while (zero < STK_JPEG_PAIR_BITS - 1 && index >> (STK_JPEG_PAIR_BITS - 1 - zero) & 1)
		zero++;
	e->second_bits = (uint8_t)zero;
	e->second_shift = 63;
	e->second_bias = 0;
}

static struct stk_jpeg_ac_entry make_entry(const struct first *f, uint32_t index)
{
	struct stk_jpeg_ac_entry e = {.first_at = 64};
	uint32_t code = f->length[index];
	uint8_t symbol = f->symbol[index];
	if (!code) {
		e.advance = 64;
		e.second_shift = 63; /* whatever is stored goes outside the block */
		return e;
	}
	uint32_t size = size_of(symbol), used = code + size;
	if (used < STK_JPEG_PAIR_BITS && size <= 7 && !ends_block(symbol)) {
		uint32_t rest = index << used & ((1u << STK_JPEG_PAIR_BITS) - 1), next = f->length[rest];
		if (next && used + next <= STK_JPEG_PAIR_BITS) {
			e.first_at = symbol >> 4;
			e.first_value = (int8_t)extend(index >> (STK_JPEG_PAIR_BITS - used) & ((1u << size) - 1), size);
			e.advance = (uint8_t)advance_of(symbol);
			set_second(&e, f->symbol[rest], used + next, index);
			return e;
		}
	}
	set_second(&e, symbol, code, index);
	return e;
}

/* Runs of whole symbols, which may end the block, but not pass position 63 from 1 by themselves. Extra bits may lie beyond the index. */
static void pass_over(const struct first *f, uint32_t index, uint8_t *length, uint8_t *advance)
{
	enum { BITS = STK_JPEG_SKIP_BITS };
	uint32_t used = 0, places = 0;
	while (used < BITS) {
		uint32_t rest = index << used & ((1u << BITS) - 1), code = f->length[rest];
		if (!code || used + code > BITS)
			break;
		uint8_t symbol = f->symbol[rest];
		if (places + advance_of(symbol) > 63 && !ends_block(symbol))
			break;
		used += code + size_of(symbol);
		places += advance_of(symbol);
		if (ends_block(symbol))
			break;
	}
	*length = (uint8_t)used;
	*advance = (uint8_t)(used ? places : 255);
}

void stk__jpeg_ac_table_build(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h)
{
	struct first f;
	build_codes(&t->codes, h);
	find_first(&f, h, STK_JPEG_PAIR_BITS);
	for (uint32_t i = 0; i < 1u << STK_JPEG_PAIR_BITS; i++) {
		t->pair[i] = make_entry(&f, i);
		t->pair_length[i] = t->pair[i].length;
		t->first_length[i] = (uint8_t)(f.length[i] + size_of(f.symbol[i])); /* used only where there is a pair */
	}
}

void stk__jpeg_ac_table_build_skip(struct stk_jpeg_ac_table *t, const struct stk_jpeg_huffman *h)
{
	struct first f;
	find_first(&f, h, STK_JPEG_SKIP_BITS);
	for (uint32_t i = 0; i < 1u << STK_JPEG_SKIP_BITS; i++)
		pass_over(&f, i, &t->skip_length[i], &t->skip_advance[i]);
}

void stk__jpeg_dc_table_build(struct stk_jpeg_dc_table *t, const struct stk_jpeg_huffman *h)
{
	struct first f;
	build_codes(&t->codes, h);
	find_first(&f, h, STK_JPEG_DC_BITS);
	for (uint32_t i = 0; i < 1u << STK_JPEG_DC_BITS; i++) {
		uint8_t code = f.length[i], size = code ? f.symbol[i] : 0;
		t->entry[i] = (struct stk_jpeg_dc_entry){code, size};
		t->length[i] = (uint8_t)(code + size);
	}
}
