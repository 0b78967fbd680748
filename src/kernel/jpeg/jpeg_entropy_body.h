/* SPDX-License-Identifier: Apache-2.0
 *
 * Huffman decoding of blocks (ITU-T T.81 annex F.2.2). Included by jpeg_entropy.c and jpeg_entropy_avx2.c, which compile the same code. The second compiles it
 * for BMI2, whose shifts do not set flags and make the code faster. Both define ENTROPY_NAME(name), and ENTROPY_PLACE(row, column), the layout of coefficients.
 *
 * A refill is one unaligned load without a branch (after Fabian Giesen, "Reading bits in far too many ways", 2018). After a refill, all 64 bits of the window
 * are from the stream, and `count` is 56 to 63. A lookup's index needs only the topmost bits, so a refill can be placed between the computation of the lookup's
 * address and its use. There it costs no time: the chain of dependent instructions, which limits the speed, is then only index, load, shift. This is correct
 * under two conditions:
 *     - the code after a refill uses at most 56 counted bits: a DC difference (16 + 11) and a lookup (11 + 15), or two lookups;
 *     - enough bits remain for the next index: 64 - 27 - 26 = 11.
 * The functions that skip coefficients refill for each lookup, since a lookup may take 12 + 15 bits. */
#include "kernel/jpeg/jpeg_kernels.h"
#include "kernel/jpeg/jpeg_layout.h"

#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NEVER_INLINE static __attribute__((noinline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Maps a zigzag index to the coefficient's position in a pair of blocks. Indices from 64 on are mapped to STK_JPEG_PAIR_NOWHERE. */
#define X16 X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X
enum { X = STK_JPEG_PAIR_NOWHERE };
static const uint8_t position_of[256] = {STK_JPEG_ZIGZAG(ENTROPY_PLACE), X16, X16, X16, X16, X16, X16, X16, X16, X16, X16, X16, X16};

ALWAYS_INLINE void refill(struct stk_jpeg_bits *b)
{
	uint64_t bytes;
	memcpy(&bytes, b->next, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	bytes = __builtin_bswap64(bytes);
#endif
	b->window |= bytes >> b->count;
	b->next += (63 - b->count) >> 3;
	b->count |= 56;
}

ALWAYS_INLINE void use(struct stk_jpeg_bits *b, uint64_t bits)
{
	b->window <<= bits;
	b->count -= bits;
}

/* Returns the value of a coefficient whose extra bits are the highest bits of t. shift: 64 - number of extra bits; bias: 1 - 2^(number of extra bits). */
ALWAYS_INLINE int64_t value_of(uint64_t t, uint64_t shift, int64_t bias)
{
	return (int64_t)(t >> shift) + (~((int64_t)t >> 63) & bias);
}

/* Decodes a code of more than `bits` bits, which a lookup with an index of `bits` bits cannot find. Sets *length and returns the symbol, or returns -1 if
 * the code does not exist. */
NEVER_INLINE int long_code(uint64_t window, const struct stk_jpeg_codes *c, uint32_t bits, uint32_t *length)
{
	uint32_t prefix = (uint32_t)(window >> 48);
	for (uint32_t n = bits + 1; n <= 16; n++)
		if (prefix < c->limit[n]) {
			*length = n;
			return c->values[(int32_t)(prefix >> (16 - n)) + c->offset[n]];
		}
	return -1;
}

/* Refills, decodes a DC difference and adds it to the prediction. Returns false if the code does not exist. */
ALWAYS_INLINE bool decode_dc(struct stk_jpeg_bits *b, const struct stk_jpeg_dc_table *t, int32_t *prediction)
{
	uint64_t index = b->window >> (64 - STK_JPEG_DC_BITS);
	refill(b);
	struct stk_jpeg_dc_entry e = t->entry[index];
	uint64_t length = t->length[index];
	if (UNLIKELY(!length)) {
		uint32_t code;
		int size = long_code(b->window, &t->codes, STK_JPEG_DC_BITS, &code);
		if (size < 0)
			return false;
		e = (struct stk_jpeg_dc_entry){(uint8_t)code, (uint8_t)size};
		length = code + (uint32_t)size;
	}
	uint64_t extra = b->window << e.code;
	int64_t difference = (int64_t)(extra >> 1 >> (63 - e.size)) + (~((int64_t)extra >> 63) & (1 - (INT64_C(1) << e.size)));
	*prediction = (int32_t)((uint32_t)*prediction + (uint32_t)difference);
	use(b, length);
	return true;
}

/* Refills, and decodes one symbol whose code is longer than `bits` bits (0: any code). Advances *k, and stores the symbol's value unless block is NULL. Returns
 * false if the code does not exist. */
NEVER_INLINE bool one_symbol_slowly(struct stk_jpeg_bits *b, const struct stk_jpeg_codes *codes, uint32_t bits, uint64_t *k, int16_t *block)
{
	uint32_t code = 0;
	refill(b);
	int symbol = long_code(b->window, codes, bits, &code);
	if (symbol < 0)
		return false;
	uint64_t size = symbol & 15, run = (uint64_t)symbol >> 4;
	if (size == 0) {
		*k += run == 15 ? 16 : STK_JPEG_END;
	} else {
		*k += run + 1;
		if (block)
			block[position_of[*k - 1]] = (int16_t)value_of(b->window << code, 64 - size, 1 - (INT64_C(1) << size));
	}
	use(b, code + size);
	return true;
}

/* Calls one_symbol_slowly with copies and returns its result: variables whose addresses are taken could not stay in registers. */
ALWAYS_INLINE bool one_symbol(struct stk_jpeg_bits *b, const struct stk_jpeg_codes *codes, uint32_t bits, uint64_t *k, int16_t *block)
{
	struct stk_jpeg_bits copy = *b;
	uint64_t position = *k;
	bool found = one_symbol_slowly(&copy, codes, bits, &position, block);
	*b = copy;
	*k = position;
	return found;
}

/* Returns true if a block ends properly at k: 64, or END + 1 to END + 63. Any other k above 63 comes from a long code, from a symbol of the next block, or from
 * damage. */
ALWAYS_INLINE bool ended_well(uint64_t k)
{
	return k == 64 || k - (STK_JPEG_END + 1) < 63;
}

/* Decodes the AC coefficients of a block. Sets *position to 64, or to END + the position of the end-of-block symbol. Returns false if the data are damaged. */
ALWAYS_INLINE bool decode_ac(struct stk_jpeg_bits *b, const struct stk_jpeg_ac_table *t, int16_t *block, uint64_t *position)
{
	const struct stk_jpeg_ac_entry *e;
	enum { SHIFT = 64 - STK_JPEG_PAIR_BITS };
	uint64_t k = 1, before, window_before, index, length;
#define LOOKUP(refilled)                                                                                                                   \
	do {                                                                                                                               \
		index = b->window >> SHIFT;                                                                                                \
		refilled;                                                                                                                  \
		e = t->pair + index;                                                                                                       \
		length = t->pair_length[index];                                                                                            \
		before = k;                                                                                                                \
		window_before = b->window;                                                                                                 \
		block[position_of[k + e->first_at]] = e->first_value;                                                                      \
		uint64_t extra = b->window << e->second_bits;                                                                              \
		k += e->advance;                                                                                                           \
		block[position_of[k - 1]] = (int16_t)value_of(extra, e->second_shift, e->second_bias);                                     \
		use(b, length);                                                                                                            \
	} while (0)
	for (;;) {
		LOOKUP((void)0);
		if (k >= 64)
			goto look;
	again:
		LOOKUP(refill(b));
		if (k < 64)
			continue;
	look:
		if (ended_well(k))
			break;
		if (!length) { /* a long code */
			k = before;
			if (!one_symbol(b, &t->codes, STK_JPEG_PAIR_BITS, &k, block))
				return false;
			if (k < 64)
				goto again;
			if (!ended_well(k))
				return false;
			break;
		}
		if (before + e->first_at != 63)
			return false;
		/* The first coefficient was the last of the block, so the second belongs to the next block. */
		uint64_t first = t->first_length[window_before >> SHIFT];
		b->window = window_before << first;
		b->count += length - first;
		k = 64;
		break;
	}
#undef LOOKUP
	*position = k;
	return true;
}

int ENTROPY_NAME(decode)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n, int16_t *coefficients)
{
	struct stk_jpeg_bits b = *bits; /* a copy can stay in registers */
	int mask = 0;
	refill(&b);
	for (int i = 0; i < n; i++) {
		int16_t *block = coefficients + blocks[i].at;
		uint64_t k;
		if (!decode_dc(&b, blocks[i].dc, blocks[i].prediction))
			return -1;
		block[0] = (int16_t)*blocks[i].prediction;
		if (!decode_ac(&b, blocks[i].ac, block, &k))
			return -1;
		mask |= (k != STK_JPEG_END + 1) << i;
	}
	*bits = b;
	return mask;
}

/* Skips the AC coefficients of a block. Returns false if the data are damaged. */
ALWAYS_INLINE bool skip_ac(struct stk_jpeg_bits *b, const struct stk_jpeg_ac_table *t)
{
	uint64_t k = 1, before, window_before, index, length;
#define LOOKUP()                                                                                                                           \
	do {                                                                                                                               \
		index = b->window >> (64 - STK_JPEG_SKIP_BITS);                                                                            \
		refill(b);                                                                                                                 \
		before = k;                                                                                                                \
		window_before = b->window;                                                                                                 \
		length = t->skip_length[index];                                                                                            \
		k += t->skip_advance[index];                                                                                               \
		use(b, length);                                                                                                            \
	} while (0)
	for (;;) {
		LOOKUP();
		if (k < 64)
			continue;
		if (ended_well(k))
			return true;
		/* A long code, or several symbols of which some belong to the next block: decodes them one by one. */
		b->window = window_before;
		b->count += length;
		k = before;
		do {
			if (!one_symbol(b, &t->codes, length ? 0 : STK_JPEG_SKIP_BITS, &k, NULL))
				return false;
		} while (k < 64 && length);
		if (k >= 64)
			return ended_well(k);
	}
#undef LOOKUP
}

int ENTROPY_NAME(skip)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n)
{
	struct stk_jpeg_bits b = *bits;
	refill(&b);
	for (int i = 0; i < n; i++)
		if (!decode_dc(&b, blocks[i].dc, blocks[i].prediction) || !skip_ac(&b, blocks[i].ac))
			return -1;
	*bits = b;
	return 0;
}
