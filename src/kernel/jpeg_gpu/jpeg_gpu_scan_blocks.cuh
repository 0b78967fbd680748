/* SPDX-License-Identifier: Apache-2.0
 * The blocks of a progressive file's AC scans [T.81 G.1.2.2, G.1.2.3]. Each lane holds two coefficients of the block. What a symbol waits for is all that the time
 * of a file consists of, so the loops over symbols have one branch, and what leads out of them is looked at outside. */
#ifndef STK_KERNEL_JPEG_GPU_SCAN_BLOCKS_CUH
#define STK_KERNEL_JPEG_GPU_SCAN_BLOCKS_CUH

#include "kernel/jpeg_gpu/jpeg_gpu_scan_bits.cuh"

/* What a symbol is that leads out of its block. */
struct closer_look {
	uint32_t symbol;        /* as scan_symbols have it, of a code that the lookup does not hold; 0 otherwise */
	uint32_t bits, end_run; /* bits it has; blocks that it ends, this one included */
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

/* The symbol that the bits are at, of which the lookup says that it has `length` bits and moves on by `leads`. */
static __device__ __forceinline__ closer_look look_closely(const stk_jpeg_gpu_scan &scan, scan_warp &w, uint32_t length, uint32_t leads)
{
	const uint32_t ahead = w.bits.ahead();
	closer_look look = leads >= ENDS ? end_of_blocks(ahead, length, leads - ENDS) : look_at_table(&scan.table[0], scan.high, ahead);
	w.end_run = look.end_run;
	w.flags |= look.flags;
	return look;
}

/* The first bits of a block's band [G.1.2.2]. */
static __device__ __forceinline__ bool first_block(const stk_jpeg_gpu_scan &scan, scan_warp &w, const scan_shared &shared, int16_t *block)
{
	/* Bit and coefficient move in one number: the bit in p's word 0..7 | coefficient 8.., counted so that the band ends at FULL. */
	const uint32_t FULL = 128, moved_on = (FULL * 2 | FULL) << 8 | 7 << 5;
	const uint32_t lane = threadIdx.x % 32, before = FULL - (scan.end + 1u), mine = lane + 1 + before, shift = scan.low;
	int32_t low = 0, high = 0; /* this lane's coefficients: `lane` and `lane + 32` */
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

/* What a lane knows of one of the block's coefficients, and of the symbols so far. A run passes over zeros alone, and behind its code and sign come bits for the
 * coefficients that it passes and that are set. So all that the next symbol waits for is how many these are; what the bits do is left for the end of the block,
 * when each lane sees to its own. */
struct refined {
	int32_t value;
	uint32_t zeros_before, set_before; /* coefficients before it that are zero, and set */
	bool inside;                       /* the band */
	uint32_t symbol;                   /* that led to it; 0: none */
	/* Of a zero: the bit behind the sign. Of others: where its bit of the corrections is, less those of earlier coefficients. */
	uint32_t at;

	__device__ __forceinline__ void begin(int32_t held, uint32_t place, const stk_jpeg_gpu_scan &scan)
	{
		value = held;
		inside = place >= scan.start && place <= scan.end;
		symbol = 0;
		at = 0;
	}

	/* The symbol led from zero coefficient `from` to zero coefficient `to`, and its sign ends before bit `behind`; corrections: that bit less corrections before. */
	__device__ __forceinline__ void pass(uint32_t led, uint32_t from, uint32_t to, uint32_t behind, uint32_t corrections)
	{
		at = zeros_before >= from ? value ? corrections : behind : at;
		symbol = zeros_before == to ? led : symbol;
	}

	/* The new value, or 0 where it stays. Runs led to zeros before `from`; what lies behind has its corrections at bit `rest`. */
	__device__ __forceinline__ int32_t refine(const scan_bits &bits, uint32_t from, uint32_t rest, int32_t step) const
	{
		const bool bit = bits.bit(!value ? at - 1 : set_before + (zeros_before >= from ? rest : at)),
			   found = symbol && !(symbol & 0x8000);
		const int32_t grown = bit ? value + (value < 0 ? -step : step) : 0, fresh = found ? bit ? step : -step : 0;
		return inside ? value ? grown : fresh : 0;
	}
};

/* An entry of scan_shared.set_before: of a zero coefficient, by its number, how many coefficients before it are set; with ENDS_BLOCK: behind it are neither zeros nor
 * others. NO_ZERO: there is no such zero. Bits that move on by either leave the word. */
#define ENDS_BLOCK 64
#define NO_ZERO 255

static __device__ __forceinline__ void store_set_before(scan_shared &shared, const refined &c, uint32_t zeros, uint32_t set, uint32_t place)
{
	const bool zero = c.inside && !c.value, last = c.zeros_before + 1 == zeros && c.set_before == set;
	shared.set_before[zero ? c.zeros_before : zeros + place - c.zeros_before] =
		(uint8_t)(zero ? c.set_before | (last ? ENDS_BLOCK : 0) : NO_ZERO);
}

/* Follows a block's symbols up to the zero coefficient behind the last that a run led to, whose number it gives. *rest: where corrections of what lies behind begin,
 * less those before. */
static __device__ __forceinline__ uint32_t follow_refinements(
	const stk_jpeg_gpu_scan &scan, scan_warp &w, const scan_shared &shared, refined &c0, refined &c1, uint32_t *rest)
{
	uint32_t p = w.bits.p, corrections = p, from = 0;
	for (;;) {
		const uint32_t end = (p | 31) + 1;
		uint32_t symbol, to, passed, began;
		do {
			began = p;
			symbol = w.symbols.at(p);
			to = from + (symbol >> 16);
			passed = shared.set_before[to];
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
			from = to - (symbol >> 16);
			corrections -= symbol & 31;
			const closer_look look = look_closely(scan, w, symbol & 31, symbol >> 16);
			corrections += look.bits;
			if (look.end_run)
				break;
			symbol = look.symbol;
			to = from + (symbol >> 16);
			passed = shared.set_before[to];
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

/* One more bit of a block's band [G.1.2.3]; value0 and value1 are this lane's coefficients. */
static __device__ __forceinline__ bool refine_block(
	const stk_jpeg_gpu_scan &scan, scan_warp &w, scan_shared &shared, int32_t value0, int32_t value1, int16_t *block)
{
	const uint32_t lane = threadIdx.x % 32, below = (1u << lane) - 1;
	refined c0, c1;
	c0.begin(value0, lane, scan);
	c1.begin(value1, lane + 32, scan);
	const uint32_t zero0 = __ballot_sync(~0u, c0.inside && !c0.value), zero1 = __ballot_sync(~0u, c1.inside && !c1.value);
	const uint32_t set0 = __ballot_sync(~0u, c0.inside && c0.value), set1 = __ballot_sync(~0u, c1.inside && c1.value);
	c0.zeros_before = __popc(zero0 & below);
	c0.set_before = __popc(set0 & below);
	c1.zeros_before = __popc(zero0) + __popc(zero1 & below);
	c1.set_before = __popc(set0) + __popc(set1 & below);
	const uint32_t zeros = __popc(zero0) + __popc(zero1), set = scan.end - scan.start + 1u - zeros;
	uint32_t from = 0, rest = w.bits.p; /* of a block that an earlier symbol has ended: it has corrections alone */
	if (!w.end_run) {
		store_set_before(shared, c0, zeros, set, lane);
		store_set_before(shared, c1, zeros, set, lane + 32);
		__syncwarp();
		from = follow_refinements(scan, w, shared, c0, c1, &rest);
	}
	if (w.flags)
		return false;
	if (w.end_run) {
		w.symbols.move(w.bits, rest + set, shared, false);
		w.end_run--;
	}
	const int32_t new0 = c0.refine(w.bits, from, rest, 1 << scan.low), new1 = c1.refine(w.bits, from, rest, 1 << scan.low);
	if (new0)
		block[lane] = (int16_t)new0;
	if (new1)
		block[lane + 32] = (int16_t)new1;
	__syncwarp();
	return true;
}

#endif
