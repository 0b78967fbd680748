/* SPDX-License-Identifier: Apache-2.0
 * Decodes the blocks of a progressive file's AC scans [T.81 G.1.2.2, G.1.2.3]. Each lane has two coefficients of the block. Symbols can only be decoded one
 * after the other, so their latencies add up to the time for a file. Therefore the loops over symbols have only one branch, and cases that leave a loop are
 * handled outside of it. */
#ifndef STK_KERNEL_JPEG_GPU_SCAN_BLOCKS_CUH
#define STK_KERNEL_JPEG_GPU_SCAN_BLOCKS_CUH

#include "kernel/jpeg_gpu/jpeg_gpu_scan_bits.cuh"

/* Describes a symbol that cannot be decoded in the loop over symbols. */
struct closer_look {
	uint32_t symbol;        /* in the form of scan_symbols; 0 if the symbol ends blocks or is not valid */
	uint32_t bits, end_run; /* number of the symbol's bits, and number of blocks that the symbol ends, including this one */
	uint32_t flags;
};

static __device__ __forceinline__ closer_look end_of_blocks(uint32_t ahead, uint32_t length, uint32_t counting)
{
	return {0, length + counting, (1u << counting) + stk__jpeg_gpu_extra(ahead, length, counting), 0};
}

static __device__ __noinline__ closer_look look_at_table(const stk_jpeg_huffman *table, uint32_t refinement, uint32_t ahead)
{
	uint32_t found = stk__jpeg_gpu_symbol(table, ahead, 16);
	if (found && stk__jpeg_gpu_scan_ends(found))
		return end_of_blocks(ahead, found >> 8, found >> 4 & 15);
	uint32_t entry = found ? stk__jpeg_gpu_scan_entry(found, refinement) : STK_JPEG_GPU_NONE;
	if (entry == STK_JPEG_GPU_NONE)
		return {0, 0, 0, STK_JPEG_GPU_BAD_CODE};
	return {scan_symbols::symbol_of(entry, ahead, !refinement), entry & 31, 0, 0};
}

/* Decodes the next symbol, which the loop over symbols cannot decode. length, leads: the symbol's number of bits and its advance or run, from the lookup table.
 * Sets w.end_run, and sets STK_JPEG_GPU_BAD_CODE in w.flags if the symbol is not valid. */
static __device__ __forceinline__ closer_look look_closely(const stk_jpeg_gpu_scan &scan, scan_warp &w, uint32_t length, uint32_t leads)
{
	const uint32_t ahead = w.bits.ahead();
	closer_look look = leads >= ENDS ? end_of_blocks(ahead, length, leads - ENDS) : look_at_table(&scan.table[0], scan.high, ahead);
	w.end_run = look.end_run;
	w.flags |= look.flags;
	return look;
}

/* Decodes a block's coefficients in a first scan [G.1.2.2]. Returns false, with w.flags set, if the data are damaged. */
static __device__ __forceinline__ bool first_block(const stk_jpeg_gpu_scan &scan, scan_warp &w, const scan_shared &shared, int16_t *block)
{
	/* `at` holds the bit in the word in its bits 0..7 and the coefficient from bit 8 on, so that one addition advances both. The coefficient has an
	 * offset so that the band ends at FULL. */
	const uint32_t FULL = 128, moved_on = (FULL * 2 | FULL) << 8 | 7 << 5;
	const uint32_t lane = threadIdx.x % 32, before = FULL - (scan.end + 1u), mine = lane + 1 + before, shift = scan.low;
	int32_t low = 0, high = 0; /* this lane's coefficients, number `lane` and `lane + 32` */
	uint32_t at = (scan.start + before) << 8 | w.bits.p % 32;
	for (;;) {
		uint32_t symbol;
		do {
			symbol = w.symbols.at(at);
			at += symbol & 0xffff;
			low = at >> 8 == mine ? (int32_t)symbol >> 16 : low;
			high = at >> 8 == mine + 32 ? (int32_t)symbol >> 16 : high;
		} while (!(at & moved_on));
		if (at >> 8 < FULL) {
			w.symbols.step(w.bits, shared, true);
			at -= 32;
			continue;
		}
		const uint32_t word = w.bits.p & ~31u;
		if (at >> 8 > FULL) {
			at -= symbol & 0xffff;
			w.bits.p = word + (at & 255);
			const closer_look look = look_closely(scan, w, symbol & 255, symbol >> 8 & 255);
			at += look.end_run ? ((FULL - (at >> 8)) << 8) + look.bits : look.symbol & 0xffff;
			w.flags |= at >> 8 > FULL ? STK_JPEG_GPU_OVERRUN : 0u;
			if (w.flags)
				return false;
			low = at >> 8 == mine ? (int32_t)look.symbol >> 16 : low;
			high = at >> 8 == mine + 32 ? (int32_t)look.symbol >> 16 : high;
		}
		w.symbols.move(w.bits, word + (at & 255), shared, true);
		at = (at & ~255u) | w.bits.p % 32;
		if (at >> 8 == FULL)
			break;
	}
	w.end_run -= w.end_run > 0;
	low = (int16_t)((uint32_t)low << shift);
	high = (int16_t)((uint32_t)high << shift);
	if (low)
		block[lane] = (int16_t)low;
	if (high)
		block[lane + 32] = (int16_t)high;
	return true;
}

/* The band of a refinement, as one lane needs it. These values are the same for all blocks. */
struct scan_band {
	bool inside0, inside1;     /* true if this lane's coefficient `lane`, or `lane + 32`, is in the band */
	uint32_t before0, before1; /* number of coefficients of the band that precede coefficient `lane`, or `lane + 32` */
	uint32_t below;            /* mask of the lanes before this one */
	uint32_t size;
	int32_t step;
	/* address of scan_shared.set_before. A block's zeros are numbered from this address on, so that a zero's number is the address of its entry */
	uint32_t table;

	__device__ __forceinline__ void begin(const stk_jpeg_gpu_scan &scan, const scan_shared &shared)
	{
		const uint32_t lane = threadIdx.x % 32, start = scan.start, end = scan.end;
		inside0 = lane >= start && lane <= end;
		inside1 = lane + 32 >= start && lane + 32 <= end;
		before0 = min(max(lane, start), end + 1) - start;
		before1 = min(max(lane + 32, start), end + 1) - start;
		below = (1u << lane) - 1;
		size = end + 1 - start;
		step = 1 << scan.low;
		table = stk__shared_number(shared.set_before);
	}
};

/* What a lane knows about one of its two coefficients after the symbols that were decoded so far. A symbol's run counts only zero coefficients; its code and
 * sign are followed by a correction bit for each coefficient that the run passes and that is not zero ("set"). To find the next symbol, only the number of
 * these bits is needed. Each lane applies them to its own coefficients at the end of the block. */
struct refined {
	int32_t value;
	/* the number of this coefficient if it is zero, otherwise of the next zero coefficient; and the number of set coefficients before it */
	uint32_t zero, set_before;
	uint32_t symbol; /* the symbol whose run ended at this coefficient; 0: no symbol */
	/* For a zero coefficient: position of the bit after the sign. For a set one: position of its correction bit minus number of earlier corrections. */
	uint32_t at;

	/* Begins a block. held: the coefficient's value; before: number of the band's coefficients that precede it; zeros: number of zeros among these. */
	__device__ __forceinline__ void begin(int32_t held, uint32_t table, uint32_t zeros, uint32_t before)
	{
		value = held;
		zero = table + zeros;
		set_before = before - zeros;
		symbol = 0;
		at = 0;
	}

	/* Updates the state for symbol `led`: its run led from zero coefficient `from` to zero coefficient `to`, and its sign ends before bit `end_bit`.
	 * corrections: end_bit minus the number of earlier corrections. Must be called for every symbol. */
	__device__ __forceinline__ void pass(uint32_t led, uint32_t from, uint32_t to, uint32_t end_bit, uint32_t corrections)
	{
		at = zero >= from ? value ? corrections : end_bit : at;
		symbol = zero == to ? led : symbol;
	}

	/* Returns the new value, or 0 if the value does not change. from: number of the first zero coefficient that no symbol led to; rest: the bit where the
	 * corrections of the coefficients from there on begin, minus the number of earlier corrections. */
	__device__ __forceinline__ int32_t refine(const scan_bits &bits, bool inside, uint32_t from, uint32_t rest, int32_t step) const
	{
		const bool bit = bits.bit(!value ? at - 1 : set_before + (zero >= from ? rest : at)), found = symbol && !(symbol & 0x8000);
		const int32_t grown = bit ? value + (value < 0 ? -step : step) : 0, fresh = found ? bit ? step : -step : 0;
		return inside ? value ? grown : fresh : 0;
	}
};

/* An entry of scan_shared.set_before says, for the zero coefficient with this number, how many set coefficients precede it; ENDS_BLOCK is added if no
 * coefficient of the band follows. NO_ZERO: there is no zero with this number. An entry with either of these values is more than the 32 bits of a word, so a
 * position that is advanced by it lies outside of the current word. */
#define ENDS_BLOCK 64
#define NO_ZERO 255

/* Stores one entry of scan_shared.set_before for the lane's coefficient at zigzag position `place`: its own entry if it is a zero of the band, otherwise
 * NO_ZERO after the entries of all zeros. zeros, set_before: numbers of zero and set coefficients that precede it; all_zeros,
 * all_set: these numbers for the whole block. */
static __device__ __forceinline__ void store_set_before(
	scan_shared &shared, bool zero, uint32_t place, uint32_t zeros, uint32_t set_before, uint32_t all_zeros, uint32_t all_set)
{
	const bool last = zeros + 1 == all_zeros && set_before == all_set;
	shared.set_before[zero ? zeros : all_zeros + place - zeros] = (uint8_t)(zero ? set_before | (last ? ENDS_BLOCK : 0) : NO_ZERO);
}

static __device__ __forceinline__ uint32_t set_before_zero(uint32_t number)
{
	return *stk__shared_at<const uint8_t>(number);
}

/* Follows the symbols of a block. Returns the number of the zero coefficient after the last one that a run led to. *rest: the bit where corrections of the
 * coefficients from there on begin, minus the number of earlier corrections. */
static __device__ __forceinline__ uint32_t follow_refinements(const stk_jpeg_gpu_scan &scan, const scan_band &band, scan_warp &w,
	const scan_shared &shared, refined &c0, refined &c1, uint32_t *rest)
{
	uint32_t p = w.bits.p, corrections = p, from = band.table;
	for (;;) {
		const uint32_t end = (p | 31) + 1;
		uint32_t symbol, to, passed, began;
		do {
			began = p;
			symbol = w.symbols.at(p);
			to = from + (symbol >> 16);
			passed = set_before_zero(to);
			corrections += symbol & 31;
			c0.pass(symbol, from, to, p + (symbol & 31), corrections);
			c1.pass(symbol, from, to, p + (symbol & 31), corrections);
			p = corrections + passed;
			from = to + 1;
		} while (p < end);
		if (p - end < 32) {
			w.symbols.step(w.bits, shared, false);
			continue;
		}
		w.bits.p = began;
		if (passed == NO_ZERO) {
			/* Restores the values that `from` and `corrections` had before the symbol. They are computed again, so that the loop needs no registers
			 * for copies. */
			from = stk__forget((int32_t)to) - (symbol >> 16);
			corrections = stk__forget((int32_t)corrections) - (symbol & 31);
			const closer_look look = look_closely(scan, w, symbol & 31, symbol >> 16);
			corrections += look.bits;
			if (look.end_run)
				break;
			symbol = look.symbol;
			to = from + (symbol >> 16);
			passed = set_before_zero(to);
			w.flags |= passed == NO_ZERO ? STK_JPEG_GPU_OVERRUN : 0u;
			if (w.flags)
				break;
			c0.pass(symbol, from, to, began + look.bits, corrections);
			c1.pass(symbol, from, to, began + look.bits, corrections);
			p = corrections + passed;
			from = to + 1;
		}
		p -= passed & ENDS_BLOCK;
		w.symbols.move(w.bits, p, shared, false);
		if (passed & ENDS_BLOCK)
			break;
	}
	*rest = corrections;
	return from;
}

/* Decodes a block in a refinement scan, which adds one more bit to each coefficient of the band [G.1.2.3]. value0 and value1: this lane's coefficients.
 * Returns false, with w.flags set, if the data are damaged. */
static __device__ __forceinline__ bool refine_block(const stk_jpeg_gpu_scan &scan, const scan_band &band, scan_warp &w, scan_shared &shared,
	int32_t value0, int32_t value1, int16_t *block)
{
	const uint32_t lane = threadIdx.x % 32;
	const bool is_zero0 = band.inside0 && !value0, is_zero1 = band.inside1 && !value1;
	const uint32_t zero0 = __ballot_sync(~0u, is_zero0), zero1 = __ballot_sync(~0u, is_zero1), low = __popc(zero0);
	const uint32_t before0 = __popc(zero0 & band.below), before1 = low + __popc(zero1 & band.below);
	const uint32_t zeros = low + __popc(zero1), set = band.size - zeros;
	refined c0, c1;
	c0.begin(value0, band.table, before0, band.before0);
	c1.begin(value1, band.table, before1, band.before1);
	uint32_t from = band.table, rest = w.bits.p; /* for a block that an earlier symbol has ended */
	if (!w.end_run) {
		store_set_before(shared, is_zero0, lane, before0, c0.set_before, zeros, set);
		store_set_before(shared, is_zero1, lane + 32, before1, c1.set_before, zeros, set);
		__syncwarp();
		from = follow_refinements(scan, band, w, shared, c0, c1, &rest);
		if (w.flags)
			return false;
	}
	if (w.end_run) {
		w.symbols.move(w.bits, rest + set, shared, false);
		w.end_run--;
	}
	const int32_t new0 = c0.refine(w.bits, band.inside0, from, rest, band.step),
		      new1 = c1.refine(w.bits, band.inside1, from, rest, band.step);
	if (new0)
		block[lane] = (int16_t)new0;
	if (new1)
		block[lane + 32] = (int16_t)new1;
	__syncwarp();
	return true;
}

#endif
