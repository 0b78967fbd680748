/* SPDX-License-Identifier: Apache-2.0
 *
 * Huffman decoding of progressive scans (ITU-T T.81 annex G), included by jpeg_entropy.c and jpeg_entropy_avx2.c behind jpeg_entropy_body.h, whose
 * reading of bits it uses.
 *
 * Which AC coefficients of a block are not zero so far is kept as a mask in zigzag order. A refinement's run of zeros is then found by dropping bits
 * of the mask, the correction bits of a run are as many as bits passed, and of blocks whose values nobody wants the mask alone is kept. */

/* Two symbols of a code and 15 extra bits, or a symbol and 32 bits of another kind, fit in what one refill makes valid (56 bits). */
ALWAYS_INLINE uint32_t take(struct stk_jpeg_bits *b, uint32_t bits)
{
	uint32_t value = (uint32_t)(b->window >> 1 >> (63 - bits));
	use(b, bits);
	return value;
}

/* The next symbol, or -1. Needs 16 bits. */
ALWAYS_INLINE int next_symbol(struct stk_jpeg_bits *b, const struct stk_jpeg_band_table *t)
{
	struct stk_jpeg_symbol s = t->symbol[b->window >> (64 - STK_JPEG_BAND_BITS)];
	if (UNLIKELY(!s.bits)) {
		uint32_t length = 0;
		int symbol = long_code(b->window, &t->codes, STK_JPEG_BAND_BITS, &length);
		use(b, length);
		return symbol;
	}
	use(b, s.bits);
	return s.symbol;
}

/* Length of a run of blocks that end here, this one included [G.1.2.2]. */
ALWAYS_INLINE uint32_t end_run(struct stk_jpeg_bits *b, uint32_t log)
{
	return (UINT32_C(1) << log) + take(b, log);
}

/* ---- first scans ---- */

/* What first_block's lookup does not hold: an end of blocks, 16 zeros, a long code. 1: go on at *k; 0: the block has ended; -1: damage. */
NEVER_INLINE int first_slowly(struct stk_jpeg_bits *b, struct stk_jpeg_band *band, uint32_t *k, int32_t *value)
{
	refill(b);
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
		nonzero |= (uint64_t)(stored != 0) << (k - 1);
		if (block)
			block[place[k - 1]] = stored;
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

/* A bit for each coefficient of m: whether it grows by the scan's step [G.1.2.3]. */
ALWAYS_INLINE void correct(struct stk_jpeg_bits *b, uint64_t m, int low, int16_t *block)
{
	enum { MOST = 56 };
	while (m) {
		refill(b);
		if (!block) {
			int count = __builtin_popcountll(m), some = count < MOST ? count : MOST;
			use(b, (uint64_t)some);
			if (count == some)
				return;
			for (; some; some--)
				m &= m - 1;
			continue;
		}
		for (int n = MOST; m && n; n--, m &= m - 1) {
			int16_t *c = block + place[__builtin_ctzll(m)];
			int32_t step = ((*c >> 15) | 1) * (1 << low);
			*c = (int16_t)(*c + (step & (int32_t)((int64_t)b->window >> 63)));
			use(b, 1);
		}
	}
}

ALWAYS_INLINE bool refine_block(struct stk_jpeg_bits *b, struct stk_jpeg_band *band, uint64_t *mask, int16_t *block)
{
	uint64_t left = (~UINT64_C(0) << band->start) & (~UINT64_C(0) >> (63 - band->end)), nonzero = *mask, found = 0;
	while (left && !band->end_run) {
		refill(b);
		int symbol = next_symbol(b, band->table);
		if (symbol < 0)
			return false;
		uint32_t size = (uint32_t)symbol & 15, run = (uint32_t)symbol >> 4;
		if (size > 1)
			return false;
		int32_t value = 0;
		if (size)
			value = (int32_t)(take(b, 1) * 2 - 1) * (1 << band->low);
		else if (run < 15) {
			band->end_run = end_run(b, run);
			break;
		}
		uint64_t zeros = left & ~nonzero;
		for (; run && zeros; run--)
			zeros &= zeros - 1;
		if (!zeros)
			return false;
		uint64_t target = zeros & (0 - zeros);
		correct(b, left & nonzero & (target - 1), band->low, block);
		left &= 0 - (target << 1);
		if (size) {
			found |= target;
			if (block)
				block[place[__builtin_ctzll(target)]] = (int16_t)value;
		}
	}
	if (band->end_run) {
		correct(b, left & nonzero, band->low, block);
		band->end_run--;
	}
	*mask = nonzero | found;
	return true;
}

int ENTROPY_NAME(band_refine)(
	struct stk_jpeg_bits *bits, struct stk_jpeg_band *band, uint64_t *masks, int16_t *coefficients, int from, int to)
{
	struct stk_jpeg_bits b = *bits;
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
	return take(bits, (uint32_t)n);
}
