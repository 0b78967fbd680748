/* SPDX-License-Identifier: Apache-2.0
 *
 * Huffman decoding of progressive scans (ITU-T T.81 annex G). Included by jpeg_entropy.c and jpeg_entropy_avx2.c after jpeg_entropy_body.h, which has the
 * functions that read bits.
 *
 * For each block, a mask records which AC coefficients are not zero so far; the highest bit is for the first coefficient in zigzag order. In a refinement
 * scan, a run of zeros is counted in bits of the mask, and the correction bits of a run correspond to the set bits of the mask in the same order. Both are
 * computed by depositing bits under a mask, which is one instruction of BMI2. For blocks whose values are not needed, only the mask is stored. */

/* Removes the next bits from the window and returns them. One refill (56 bits) is enough for a code and its extra bits (31), or for a code, a sign and 32
 * corrections (49). */
ALWAYS_INLINE uint32_t take_bits(struct stk_jpeg_bits *b, uint32_t bits)
{
	uint32_t value = (uint32_t)(b->window >> 1 >> (63 - bits));
	use(b, bits);
	return value;
}

/* Refills, and returns the next symbol, or -1 if its code does not exist. The window must have enough bits for a lookup already before the refill. */
ALWAYS_INLINE int next_symbol(struct stk_jpeg_bits *b, const struct stk_jpeg_band_table *t)
{
	uint64_t index = b->window >> (64 - STK_JPEG_BAND_BITS);
	refill(b);
	struct stk_jpeg_symbol s = t->symbol[index];
	if (UNLIKELY(!s.bits)) {
		uint32_t length = 0;
		int symbol = long_code(b->window, &t->codes, STK_JPEG_BAND_BITS, &length);
		use(b, length);
		return symbol;
	}
	use(b, s.bits);
	return s.symbol;
}

/* Reads an end-of-band symbol's extra bits and returns the number of blocks that end here, including this one [G.1.2.2]. */
ALWAYS_INLINE uint32_t end_run(struct stk_jpeg_bits *b, uint32_t log)
{
	return (UINT32_C(1) << log) + take_bits(b, log);
}

/* ---- first scans ---- */

/* Decodes a symbol for which the lookup in first_block is not enough: an end of several blocks, 16 zeros, a long code, many extra bits, or damage.
 * Returns 1 if decoding continues at *k, 0 if the block has ended, -1 if the data are damaged. *value: set to the coefficient at *k - 1, or to 0 if the symbol
 * has none. */
NEVER_INLINE int first_slowly(struct stk_jpeg_bits *b, struct stk_jpeg_band *band, uint32_t *k, int32_t *value)
{
	int symbol = next_symbol(b, band->table);
	if (symbol < 0)
		return -1;
	uint32_t size = (uint32_t)symbol & 15, run = (uint32_t)symbol >> 4;
	*value = 0;
	if (size) {
		*k += run + 1;
		*value = (int32_t)value_of(b->window, 64 - size, 1 - (INT64_C(1) << size));
		use(b, size);
	} else if (run == 15) {
		*k += 16;
		return *k <= band->end ? 1 : -1;
	} else {
		band->end_run = end_run(b, run) - 1;
		return 0;
	}
	return *k - 1 <= band->end ? 1 : -1;
}

ALWAYS_INLINE bool first_block(struct stk_jpeg_bits *b, struct stk_jpeg_band *band, uint64_t *mask, int16_t *block)
{
	uint32_t k = band->start, end = band->end;
	uint64_t nonzero = *mask;
	do {
		struct stk_jpeg_band_entry e = band->table->first[b->window >> (64 - STK_JPEG_BAND_BITS)];
		refill(b);
		uint32_t next = k + e.advance;
		int32_t value = e.value;
		if (next > end + 1) {
			if (e.advance == STK_JPEG_END) {
				use(b, e.length);
				break;
			}
			struct stk_jpeg_bits copy = *b;
			int more = first_slowly(&copy, band, &k, &value);
			*b = copy;
			if (more < 0)
				return false;
			if (!more)
				break;
			if (!value)
				continue;
		} else {
			use(b, e.length);
			k = next;
		}
		int16_t stored = (int16_t)(value * (1 << band->low));
		nonzero |= (uint64_t)(stored != 0) << (64 - k);
		if (block)
			block[position_of[k - 1]] = stored;
	} while (k <= end);
	*mask = nonzero;
	return true;
}

int ENTROPY_NAME(band_first)(
	struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to)
{
	struct stk_jpeg_bits b = *bits;
	refill(&b);
	for (int i = from; i < to; i++) {
		if (band->end_run) {
			uint32_t blocks = band->end_run < (uint32_t)(to - i) ? band->end_run : (uint32_t)(to - i);
			band->end_run -= blocks;
			i += (int)blocks - 1;
			continue;
		}
		if (!first_block(&b, band, masks + i, coefficients ? coefficients + stk__jpeg_block_at(i) : NULL))
			return -1;
	}
	*bits = b;
	return 0;
}

/* ---- refinements ---- */

/* Returns the lowest bits of value, moved to the positions of the mask's set bits, in order. */
ALWAYS_INLINE uint64_t deposit(uint64_t value, uint64_t mask)
{
#ifdef __BMI2__
	return __builtin_ia32_pdep_di(value, mask);
#else
	uint64_t out = 0;
	for (; mask; mask &= mask - 1, value >>= 1)
		out |= mask & (0 - mask) & (0 - (value & 1));
	return out;
#endif
}

/* Reads one bit for each coefficient in mask m. Returns a mask of the coefficients whose magnitude grows by the scan's step [G.1.2.3]. The window must have
 * at least as many bits as m has coefficients. */
ALWAYS_INLINE uint64_t corrections(struct stk_jpeg_bits *b, uint64_t m)
{
	uint64_t count = (uint64_t)__builtin_popcountll(m), value = b->window >> 1 >> (63 - count);
	use(b, count);
	return deposit(value, m);
}

/* Like `corrections`, for more than 32 coefficients; refills the window. */
NEVER_INLINE uint64_t many_corrections(struct stk_jpeg_bits *b, uint64_t m)
{
	refill(b);
	uint64_t grow = corrections(b, m & ~UINT64_C(0) << 32);
	refill(b);
	return grow | corrections(b, m & ~UINT64_C(0) >> 32);
}

/* Like `corrections`, for any number of coefficients. The window must have at least 32 bits; refills it if m has more coefficients. */
ALWAYS_INLINE uint64_t some_corrections(struct stk_jpeg_bits *b, uint64_t m)
{
	if (__builtin_popcountll(m) <= 32)
		return corrections(b, m);
	struct stk_jpeg_bits copy = *b;
	uint64_t grow = many_corrections(&copy, m);
	*b = copy;
	return grow;
}

ALWAYS_INLINE void grow_by(uint64_t grow, int low, int16_t *block)
{
	for (; grow; grow &= grow - 1) {
		int16_t *c = block + position_of[63 - __builtin_ctzll(grow)];
		*c = (int16_t)(*c + (*c < 0 ? -1 : 1) * (1 << low));
	}
}

ALWAYS_INLINE bool refine_block(struct stk_jpeg_bits *b, struct stk_jpeg_band *band, uint64_t *mask, int16_t *block)
{
	uint64_t left = (~UINT64_C(0) >> band->start) & (~UINT64_C(0) << (63 - band->end)), nonzero = *mask, found = 0, grow = 0;
	while (left && !band->end_run) {
		int symbol = next_symbol(b, band->table);
		uint32_t run = (uint32_t)symbol >> 4, size = (uint32_t)symbol & 15;
		if (size > 1) /* the size is invalid, or the code does not exist */
			return false;
		if (!size && run < 15) {
			band->end_run = end_run(b, run);
			break;
		}
		int32_t sign = size ? (int32_t)(take_bits(b, 1) * 2) - 1 : 0;
		uint64_t zeros = left & ~nonzero;
		int index = __builtin_popcountll(zeros) - 1 - (int)run;
		if (index < 0)
			return false;
		uint64_t target = deposit(UINT64_C(1) << index, zeros);
		grow |= some_corrections(b, left & nonzero & (0 - target));
		left &= target - 1;
		if (!size)
			continue;
		found |= target;
		if (block)
			block[position_of[__builtin_clzll(target)]] = (int16_t)(sign * (1 << band->low));
	}
	if (band->end_run) {
		refill(b);
		grow |= some_corrections(b, left & nonzero);
		band->end_run--;
	}
	if (block)
		grow_by(grow, band->low, block);
	*mask = nonzero | found;
	return true;
}

int ENTROPY_NAME(band_refine)(
	struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to)
{
	struct stk_jpeg_bits b = *bits;
	refill(&b);
	for (int i = from; i < to; i++) {
		if (coefficients) {
			if (!refine_block(&b, band, masks + i, coefficients + stk__jpeg_block_at(i)))
				return -1;
		} else if (!refine_block(&b, band, masks + i, NULL)) {
			return -1;
		}
	}
	*bits = b;
	return 0;
}

/* ---- DC ---- */

int ENTROPY_NAME(dc_first)(struct stk_jpeg_bits *bits, const struct stk_jpeg_block *blocks, int n)
{
	struct stk_jpeg_bits b = *bits;
	refill(&b);
	for (int i = 0; i < n; i++)
		if (!decode_dc(&b, blocks[i].dc, blocks[i].prediction))
			return -1;
	*bits = b;
	return 0;
}

uint32_t ENTROPY_NAME(take_bits)(struct stk_jpeg_bits *bits, int n)
{
	refill(bits);
	return take_bits(bits, (uint32_t)n);
}
