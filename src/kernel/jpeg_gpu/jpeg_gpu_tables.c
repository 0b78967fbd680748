/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/jpeg_gpu/jpeg_gpu_tables.h"

enum { SHORT_BITS = 10, END_OF_BLOCK = 64 };

static uint16_t make_entry(int length, unsigned symbol, bool ac)
{
	unsigned run = ac ? symbol >> 4 : 0, extra = symbol & 15;
	unsigned moves = extra ? run + 1 : !ac ? 1 : run == 15 ? 16 : END_OF_BLOCK;
	return (uint16_t)(((unsigned)length + extra) | extra << 5 | moves << 9);
}

/* Returns the lowest 16-bit prefix that does not begin with a code of at most SHORT_BITS bits, or 65536 if no code has more bits. */
static uint32_t first_long(const struct stk_jpeg_huffman *t)
{
	uint32_t code = 0, longer = 0;
	for (int length = 1; length <= 16; length++) {
		code = (code << 1) + t->counts[length - 1];
		if (length == SHORT_BITS)
			longer = code << (16 - SHORT_BITS);
	}
	uint32_t symbols = 0;
	for (int length = SHORT_BITS + 1; length <= 16; length++)
		symbols += t->counts[length - 1];
	return symbols ? longer : 65536;
}

/* Fills one table, which is indexed by the next 16 bits. Those below `split` share an entry for each value of their first SHORT_BITS bits; all others have
 * an entry each. */
static void fill(const struct stk_jpeg_huffman *t, bool ac, uint32_t split, uint32_t size, uint16_t *lut)
{
	const uint32_t cell = 1u << (16 - SHORT_BITS), cells = split / cell;
	uint32_t v = 0, symbol = 0;
	for (uint32_t i = 0; i < size; i++)
		lut[i] = STK_JPEG_GPU_INVALID;
	for (int length = 1; length <= 16; length++)
		for (int n = t->counts[length - 1]; n > 0; n--) {
			uint16_t entry = make_entry(length, t->values[symbol++], ac);
			uint32_t end = v + (1u << (16 - length));
			for (; v < end && v < split; v += cell)
				lut[v / cell] = entry;
			for (; v < end; v++)
				lut[cells + v - split] = entry;
		}
}

bool stk__jpeg_gpu_tables_measure(const struct stk_jpeg_gpu_pair *pairs, int n, struct stk_jpeg_gpu_set *set)
{
	uint32_t split = 65536;
	for (int i = 0; i < n; i++) {
		uint32_t dc = first_long(pairs[i].dc), ac = first_long(pairs[i].ac);
		split = dc < split ? dc : split;
		split = ac < split ? ac : split;
	}
	uint32_t size = (split >> (16 - SHORT_BITS)) + 65536 - split;
	size = (size + 7) & ~7u;
	if (size * 2 * (uint32_t)n > STK_JPEG_GPU_MAX_SET)
		return false;
	*set = (struct stk_jpeg_gpu_set){.size = size, .split = split, .tables = 2 * (uint32_t)n};
	return true;
}

bool stk__jpeg_gpu_tables_make(const struct stk_jpeg_gpu_pair *pairs, int n, struct stk_jpeg_gpu_set *set, uint16_t *lut)
{
	if (!stk__jpeg_gpu_tables_measure(pairs, n, set))
		return false;
	for (int i = 0; i < n; i++) {
		fill(pairs[i].dc, false, set->split, set->size, lut + (size_t)(2 * i) * set->size);
		fill(pairs[i].ac, true, set->split, set->size, lut + (size_t)(2 * i + 1) * set->size);
	}
	return true;
}
