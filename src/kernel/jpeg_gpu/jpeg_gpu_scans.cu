/* SPDX-License-Identifier: Apache-2.0
 * Phase decode_scans of jpeg_gpu.h. All lanes of a warp follow the scan's symbols together, with the same values in registers; each holds words of the bits
 * and two coefficients of a block of its own. */
#include "kernel/common/cuda.cuh"
#include "kernel/jpeg_gpu/jpeg_gpu_scans.h"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

#define AC_BITS 10 /* of a lookup */
#define DC_BITS 8
#define NO_ZERO 255
#define NO_RECORD 0xffffffffu
#define LAST 64 /* added to a run or an advance: leads out of any block, since the lookup does not hold the symbol */

/* A warp's shared memory. Lookups of the symbol ahead:
 *   first AC scans:   bits of the code and its extra bits 0..4 | extra bits 5..8 | coefficients it moves on 9..15, as in a baseline file's
 *   AC refinements:   bits of the code and the sign 0..4 | run 5..11 | 15: 16 zeros, without a sign
 *   DC:               symbol | length of its code << 8, or 0; the tables of 256 follow each other */
struct scan_shared {
	uint16_t lookup[1 << AC_BITS];
	/* Of a refinement's block, by zero coefficient in order: how many before it are set, or NO_ZERO behind the last; and, where a run led to it, how many bits
	 * came before, less corrections of earlier coefficients, | no new coefficient << 31. */
	uint32_t record[64];
	uint8_t set_before[192];
};
static_assert(sizeof(struct scan_shared) == STK_JPEG_GPU_SCAN_SHARED, "what a launch asks for");
static_assert(3 << DC_BITS <= 1 << AC_BITS, "three DC tables fit");

/* The bits of a bitstream from bit p on. Each lane holds a word of the line of 32 that p is in, and one of the next. */
struct scan_bits {
	const uint32_t *words;
	uint32_t count, line; /* words there are, and the number of the first in the line */
	uint32_t here, behind;
	uint32_t p, length;
	uint32_t high, low; /* the word that p is in, and the next */

	__device__ __forceinline__ uint32_t load(uint32_t i) const
	{
		return i < count ? words[i] : 0;
	}

	/* After p moved into another word, of this line or the next. */
	__device__ __forceinline__ void seek()
	{
		uint32_t i = (p >> 5) - line;
		if (i >= 32) {
			i -= 32;
			line += 32;
			here = behind;
			behind = load(line + 32 + threadIdx.x % 32);
		}
		high = __shfl_sync(~0u, here, i);
		low = __shfl_sync(~0u, i == 31 ? behind : here, (i + 1) & 31);
	}

	__device__ __forceinline__ void begin(const stk_jpeg_gpu_view &v, uint32_t bitstream)
	{
		words = stk__jpeg_gpu_words(&v, &v.bitstreams[bitstream]);
		length = v.bit_length[bitstream];
		count = (length + 31) / 32;
		p = line = 0;
		here = load(threadIdx.x % 32);
		behind = load(32 + threadIdx.x % 32);
		seek();
	}

	__device__ __forceinline__ uint32_t ahead() const
	{
		return __funnelshift_l(low, high, p);
	}

	/* Moves on by less than 1000 bits. */
	__device__ __forceinline__ void move_to(uint32_t to)
	{
		bool same = (p ^ to) < 32;
		p = to;
		if (!same)
			seek();
	}

	__device__ __forceinline__ void skip(uint32_t bits)
	{
		move_to(p + bits);
	}

	__device__ __forceinline__ uint32_t bit(uint32_t at) const
	{
		return load(at >> 5) >> (31 - at % 32) & 1;
	}
};

/* A warp at work on its scan. */
struct scan_warp {
	scan_bits bits;
	uint32_t bitstream, left; /* units until the restart interval ends */
	uint32_t end_run;         /* blocks that end at once */
	int32_t prediction[3];
	uint32_t flags;
};

static __device__ __forceinline__ void restart(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_scan &scan, scan_warp &w)
{
	w.bits.begin(v, w.bitstream);
	w.left = scan.interval;
	w.end_run = 0;
#pragma unroll
	for (int i = 0; i < 3; i++)
		w.prediction[i] = 0;
}

/* Goes on to the next restart interval if this one has ended. */
static __device__ __forceinline__ bool go_on(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_scan &scan, scan_warp &w)
{
	if (w.left)
		return true;
	if (w.bits.p > w.bits.length || w.bits.length - w.bits.p >= 8) {
		w.flags |= w.bits.p > w.bits.length ? STK_JPEG_GPU_SHORT : STK_JPEG_GPU_LEFTOVER;
		return false;
	}
	w.bitstream++;
	restart(v, scan, w);
	return true;
}

/* ---- AC ---- */

/* What a lookup does not hold: an end of blocks, a code of more than AC_BITS, damage. */
struct closer_look {
	uint32_t entry;         /* of the symbol, or NONE: the block ends, or flags are set */
	uint32_t end_run, bits; /* blocks that end, this one included, and the bits that say so */
	uint32_t flags;
};

static __device__ __noinline__ closer_look look_closely(const stk_jpeg_huffman *table, uint32_t refinement, uint32_t ahead)
{
	uint32_t symbol = stk__jpeg_gpu_symbol(table, ahead, 16), length = symbol >> 8, run = symbol >> 4 & 15;
	if (symbol && !(symbol & 15) && run < 15)
		return {STK_JPEG_GPU_NONE, (1u << run) + stk__jpeg_gpu_extra(ahead, length, run), length + run, 0};
	uint32_t entry = symbol ? stk__jpeg_gpu_scan_entry(symbol, refinement) : STK_JPEG_GPU_NONE;
	return {entry, 0, 0, entry == STK_JPEG_GPU_NONE ? STK_JPEG_GPU_BAD_CODE : 0u};
}

/* The same, and passes over an end of blocks. Gives the entry, or NONE. */
static __device__ __forceinline__ uint32_t look_closely(const stk_jpeg_gpu_scan &scan, scan_warp &w)
{
	closer_look look = look_closely(&scan.table[0], scan.high, w.bits.ahead());
	w.flags |= look.flags;
	w.end_run = look.end_run;
	if (look.bits)
		w.bits.skip(look.bits);
	return look.entry;
}

/* The first bits of a block's band [G.1.2.2]. */
static __device__ __forceinline__ bool first_block(const stk_jpeg_gpu_scan &scan, scan_warp &w, const scan_shared &shared, int16_t *block)
{
	const uint32_t lane = threadIdx.x % 32, end = scan.end + 1, shift = scan.low;
	const uint16_t *lookup = shared.lookup;
	int32_t low = 0, high = 0; /* this lane's coefficients: `lane` and `lane + 32` */
	uint32_t k = scan.start;
	do {
		uint32_t ahead = w.bits.ahead(), entry = lookup[ahead >> (32 - AC_BITS)], next = k + stk__jpeg_gpu_entry_moves(entry);
		if (next > end) {
			entry = look_closely(scan, w);
			if (entry == STK_JPEG_GPU_NONE) {
				w.end_run -= w.end_run > 0;
				break;
			}
			next = k + stk__jpeg_gpu_entry_moves(entry);
			if (next > end) {
				w.flags |= STK_JPEG_GPU_OVERRUN;
				break;
			}
		}
		int32_t value = stk__jpeg_gpu_value(entry, ahead);
		low = lane + 1 == next ? value : low;
		high = lane + 33 == next ? value : high;
		w.bits.skip(stk__jpeg_gpu_entry_bits(entry));
		k = next;
	} while (k < end);
	low = (int16_t)((uint32_t)low << shift);
	high = (int16_t)((uint32_t)high << shift);
	if (low)
		block[lane] = (int16_t)low;
	if (high)
		block[lane + 32] = (int16_t)high;
	return !w.flags;
}

/* What a lane knows of one of the block's coefficients, `place`: its value, which coefficients before it are zero or set, and whether it is in the band. */
struct refined {
	int32_t value;
	uint32_t place;
	uint32_t zeros_before, set_before;
	bool inside;
};

static __device__ __forceinline__ refined refined_of(int32_t value, uint32_t place, const stk_jpeg_gpu_scan &scan)
{
	return {value, place, 0, 0, place >= scan.start && place <= scan.end};
}

/* The new value of a coefficient, or 0 where it stays. hits: zeros that runs led to; last: bits before the corrections of what lies behind them. Without
 * branches, so that a lane's two coefficients wait for memory together. */
static __device__ __forceinline__ int32_t refine(
	const refined &c, const scan_bits &bits, const scan_shared &shared, uint64_t hits, uint32_t last, int32_t step)
{
	const uint64_t behind = hits >> c.zeros_before, before = hits & ((1ull << c.zeros_before) - 1);
	const uint32_t next = c.zeros_before + (behind ? (uint32_t)__ffsll((long long)behind) - 1 : 0);
	const uint32_t record = behind ? shared.record[next & 63] : last;
	const uint32_t passed = shared.set_before[before ? 63 - __clzll((long long)before) : 0];
	/* The sign is the last bit before the corrections that belong to its run. */
	const uint32_t at = (record & ~(1u << 31)) + (c.value ? c.set_before : (before ? passed : 0) - 1);
	const bool bit = bits.bit(at), found = behind & 1 && !(record >> 31);
	const int32_t grown = bit ? c.value + (c.value < 0 ? -step : step) : 0, fresh = found ? bit ? step : -step : 0;
	return c.inside ? c.value ? grown : fresh : 0;
}

/* One more bit of a block's band [G.1.2.3]; value0 and value1 are this lane's coefficients. A run passes over zeros alone, and behind its code and sign come
 * bits for the coefficients that it passes and that are set. So all that the next symbol waits for is how many these are; what the bits do is left for the
 * end of the block, when each lane sees to its own. */
static __device__ __forceinline__ bool refine_block(
	const stk_jpeg_gpu_scan &scan, scan_warp &w, scan_shared &shared, int32_t value0, int32_t value1, int16_t *block)
{
	const uint32_t lane = threadIdx.x % 32, below = (1u << lane) - 1, width = scan.end - scan.start + 1u;
	refined c0 = refined_of(value0, lane, scan), c1 = refined_of(value1, lane + 32, scan);
	const uint32_t zero0 = __ballot_sync(~0u, c0.inside && !c0.value), zero1 = __ballot_sync(~0u, c1.inside && !c1.value);
	const uint32_t set0 = __ballot_sync(~0u, c0.inside && c0.value), set1 = __ballot_sync(~0u, c1.inside && c1.value);
	c0.zeros_before = __popc(zero0 & below);
	c0.set_before = __popc(set0 & below);
	c1.zeros_before = __popc(zero0) + __popc(zero1 & below);
	c1.set_before = __popc(set0) + __popc(set1 & below);
	const uint32_t zeros = __popc(zero0) + __popc(zero1), set = width - zeros;
	shared.record[lane] = shared.record[lane + 32] = NO_RECORD;
	shared.set_before[zero0 >> lane & 1 ? c0.zeros_before : zeros + lane - c0.zeros_before] =
		zero0 >> lane & 1 ? c0.set_before : NO_ZERO;
	shared.set_before[zero1 >> lane & 1 ? c1.zeros_before : zeros + lane + 32 - c1.zeros_before] =
		zero1 >> lane & 1 ? c1.set_before : NO_ZERO;
	__syncwarp();
	const uint16_t *lookup = shared.lookup;
	const uint8_t *set_before = shared.set_before;
	uint32_t zero = 0, passed = 0, last = w.bits.p; /* last: bits so far, less the corrections */
	while (zero + passed < width && !w.end_run) {
		uint32_t entry = lookup[w.bits.ahead() >> (32 - AC_BITS)], at = zero + (entry >> 5 & 127), passes = set_before[at];
		if (passes == NO_ZERO) {
			entry = look_closely(scan, w);
			if (entry == STK_JPEG_GPU_NONE) {
				last = w.bits.p - passed;
				break;
			}
			at = zero + (entry >> 5 & 127);
			passes = set_before[at];
			if (passes == NO_ZERO) {
				w.flags |= STK_JPEG_GPU_OVERRUN;
				break;
			}
		}
		last += entry & 31;
		shared.record[at] = last | (entry >> 15) << 31;
		w.bits.move_to(last + passes);
		passed = passes;
		zero = at + 1;
	}
	if (w.flags)
		return false;
	if (w.end_run) {
		w.bits.move_to(last + set);
		w.end_run--;
	}
	__syncwarp();
	const uint64_t hits = __ballot_sync(~0u, shared.record[lane] != NO_RECORD) |
			      (uint64_t)__ballot_sync(~0u, shared.record[lane + 32] != NO_RECORD) << 32;
	const int32_t new0 = refine(c0, w.bits, shared, hits, last, 1 << scan.low),
		      new1 = refine(c1, w.bits, shared, hits, last, 1 << scan.low);
	if (new0)
		block[lane] = (int16_t)new0;
	if (new1)
		block[lane + 32] = (int16_t)new1;
	__syncwarp();
	return true;
}

static __device__ bool first_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w,
	const scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan);
	for (uint32_t x = 0; x < columns;) {
		if (!go_on(v, scan, w))
			return false;
		uint32_t blocks = min(min(w.end_run, columns - x), w.left);
		w.end_run -= blocks;
		if (!blocks) {
			uint32_t at = stk__jpeg_gpu_scan_block(&image, &scan, y, row, x, 0);
			if (!first_block(scan, w, shared, v.coef + 64 * (size_t)(image.coef0 + at)))
				return false;
			blocks = 1;
		}
		x += blocks;
		w.left -= blocks;
	}
	return true;
}

/* The coefficients of the blocks of a row of a component, one after the other; bytes of the file's description are loaded once. */
struct block_row {
	int16_t *at;
	uint32_t h, column, step; /* blocks of an MCU's row, where in it this one is, and blocks from its last to the next MCU's first */

	__device__ __forceinline__ void begin(
		const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, uint32_t y, uint32_t row)
	{
		at = v.coef + 64 * (size_t)(image.coef0 + stk__jpeg_gpu_scan_block(&image, &scan, y, row, 0, 0));
		h = image.plane[scan.component].h;
		column = 0;
		step = image.blocks_mcu - h + 1;
	}

	__device__ __forceinline__ void next()
	{
		column++;
		at += 64 * (column == h ? step : 1);
		column = column == h ? 0 : column;
	}
};

static __device__ bool refine_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w,
	scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan), lane = threadIdx.x % 32;
	block_row blocks;
	blocks.begin(v, image, scan, y, row);
	int32_t next_low = blocks.at[lane], next_high = blocks.at[lane + 32];
	for (uint32_t x = 0; x < columns; x++) {
		int16_t *block = blocks.at;
		int32_t low = next_low, high = next_high;
		if (x + 1 < columns) { /* loaded while this block is decoded */
			blocks.next();
			next_low = blocks.at[lane];
			next_high = blocks.at[lane + 32];
		}
		if (!go_on(v, scan, w) || !refine_block(scan, w, shared, low, high, block))
			return false;
		w.left--;
	}
	return true;
}

/* ---- DC ---- */

static __device__ bool first_dc_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan,
	scan_warp &w, const scan_shared &shared, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan);
	for (uint32_t x = 0; x < columns; x++, w.left--) {
		if (!go_on(v, scan, w))
			return false;
		for (uint32_t i = 0; i < scan.parts; i++) {
			uint32_t slot = scan.slot[i], ahead = w.bits.ahead();
			uint32_t symbol = shared.lookup[slot << DC_BITS | ahead >> (32 - DC_BITS)];
			symbol = symbol ? symbol : stk__jpeg_gpu_symbol(&scan.table[slot], ahead, 16);
			uint32_t length = symbol >> 8, size = symbol & 15;
			if (!symbol) {
				w.flags |= STK_JPEG_GPU_BAD_CODE;
				return false;
			}
			int32_t difference = stk__jpeg_gpu_extend(stk__jpeg_gpu_extra(ahead, length, size), size), value = 0;
			w.bits.skip(length + size);
#pragma unroll
			for (uint32_t c = 0; c < 3; c++) {
				w.prediction[c] += slot == c ? difference : 0;
				value = slot == c ? w.prediction[c] : value;
			}
			if (threadIdx.x % 32 == 0)
				v.dc[image.dc0 + stk__jpeg_gpu_scan_block(&image, &scan, y, row, x, i)] =
					(int16_t)((uint32_t)value << scan.low);
		}
	}
#pragma unroll
	for (int c = 0; c < 3; c++)
		if (w.prediction[c] > STK_JPEG_GPU_PREDICTION_LIMIT || w.prediction[c] < -STK_JPEG_GPU_PREDICTION_LIMIT)
			w.flags |= STK_JPEG_GPU_DC_RANGE;
	return !w.flags;
}

/* A block has one bit, so that a lane takes a block, 32 or fewer at a time. */
static __device__ bool refine_dc_row(
	const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image, const stk_jpeg_gpu_scan &scan, scan_warp &w, uint32_t y, uint32_t row)
{
	const uint32_t columns = stk__jpeg_gpu_scan_columns(&image, &scan), lane = threadIdx.x % 32, parts = scan.parts;
	for (uint32_t x = 0; x < columns;) {
		if (!go_on(v, scan, w))
			return false;
		uint32_t units = min(min(32 / parts, columns - x), w.left), bits = w.bits.ahead();
		if (lane < units * parts) {
			uint32_t at = stk__jpeg_gpu_scan_block(&image, &scan, y, row, x + lane / parts, lane % parts);
			v.dc[image.dc0 + at] |= (int16_t)((bits >> (31 - lane) & 1) << scan.low);
		}
		w.bits.skip(units * parts);
		x += units;
		w.left -= units;
	}
	return true;
}

/* ---- a file ---- */

static __device__ __forceinline__ void load_tables(scan_shared &shared, const stk_jpeg_gpu_scan &scan)
{
	const uint32_t lane = threadIdx.x % 32;
	for (uint32_t i = lane; i < sizeof shared.set_before; i += 32)
		shared.set_before[i] = NO_ZERO;
	if (scan.start)
		for (uint32_t i = lane; i < 1 << AC_BITS; i += 32) {
			uint32_t symbol = stk__jpeg_gpu_symbol(&scan.table[0], i << (32 - AC_BITS), AC_BITS);
			uint32_t entry =
				symbol & 15 || (symbol & 255) == 0xf0 ? stk__jpeg_gpu_scan_entry(symbol, scan.high) : STK_JPEG_GPU_NONE;
			shared.lookup[i] = entry != STK_JPEG_GPU_NONE ? (uint16_t)entry : LAST << (scan.high ? 5 : 9);
		}
	else
		for (uint32_t i = lane; i < 3 << DC_BITS; i += 32)
			shared.lookup[i] = (uint16_t)stk__jpeg_gpu_symbol(&scan.table[i >> DC_BITS], i << (32 - DC_BITS), DC_BITS);
	__syncwarp();
}

/* The thread block sets all coefficients to zero. */
static __device__ __forceinline__ void clear(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image)
{
	uint4 *coef = (uint4 *)(v.coef + 64 * (size_t)image.coef0);
	for (uint32_t i = threadIdx.x; i < 8 * image.idct; i += blockDim.x)
		coef[i] = make_uint4(0, 0, 0, 0);
	for (uint32_t i = threadIdx.x; i < image.idct; i += blockDim.x)
		v.dc[image.dc0 + i] = 0;
}

/* Decodes row y of MCUs. */
static __device__ __forceinline__ bool decode_row(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_image &image,
	const stk_jpeg_gpu_scan &scan, scan_warp &w, scan_shared &shared, uint32_t y)
{
	const uint32_t rows = stk__jpeg_gpu_scan_rows(&image, &scan, y);
	bool sound = true;
	for (uint32_t row = 0; row < rows && sound; row++)
		if (scan.start)
			sound = scan.high ? refine_row(v, image, scan, w, shared, y, row) : first_row(v, image, scan, w, shared, y, row);
		else
			sound = scan.high ? refine_dc_row(v, image, scan, w, y, row) : first_dc_row(v, image, scan, w, shared, y, row);
	if (w.bits.p > w.bits.length)
		w.flags |= STK_JPEG_GPU_SHORT;
	return !w.flags;
}

extern "C" __global__ void __launch_bounds__(32 * STK_JPEG_GPU_MAX_SCANS) jpeg_gpu_decode_scans(const __grid_constant__ stk_jpeg_gpu_view v)
{
	STK_SHARED_ARRAY(scan_shared, all_shared);
	const stk_jpeg_gpu_progressive &file = v.progressive[blockIdx.x];
	const stk_jpeg_gpu_image &image = v.images[file.image];
	const uint32_t warp = threadIdx.x / 32;
	scan_shared &shared = all_shared[warp];
	const stk_jpeg_gpu_scan &scan = v.scans[file.scan0 + min(warp, file.scans - 1)];
	scan_warp w = {};
	bool run = warp < file.scans;
	if (run) {
		load_tables(shared, scan);
		w.bitstream = scan.bitstream;
		restart(v, scan, w);
	}
	clear(v, image);
	__syncthreads();
	for (uint32_t step = 0; step < file.steps; step++) {
		uint32_t y = step - scan.delay;
		if (run && y < image.mcu_y1)
			run = decode_row(v, image, scan, w, shared, y);
		__syncthreads();
	}
	if (w.flags && threadIdx.x % 32 == 0)
		atomicOr(&v.flags[file.image], w.flags);
}
