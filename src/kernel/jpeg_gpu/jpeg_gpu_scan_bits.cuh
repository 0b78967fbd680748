/* SPDX-License-Identifier: Apache-2.0
 * Reads the bits and symbols of a scan of a progressive file with a warp. All lanes call these functions together, with the same values. */
#ifndef STK_KERNEL_JPEG_GPU_SCAN_BITS_CUH
#define STK_KERNEL_JPEG_GPU_SCAN_BITS_CUH

#include "kernel/common/cuda.cuh"
#include "kernel/jpeg_gpu/jpeg_gpu_scans.h"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

#define AC_BITS 10 /* number of bits that index `lookup` in an AC scan; DC_BITS: in a DC scan */
#define DC_BITS 8
#define LAST 64 /* a run or advance that leaves any block; stands for symbols that the lookup table does not contain */
#define ENDS 96 /* like LAST, for a symbol that ends blocks; the number of bits that count these blocks is added to it */

/* A warp's shared memory. `lookup` has entries of these forms, in which "a..b" are the bits of a field:
 * first AC scans: number of bits of the code and its extra bits 0..4 | number of extra bits 5..8 | number of coefficients to advance 9..15, as in a baseline
 * file's tables. A symbol that ends blocks: number of bits of the code 0..4 | ENDS + number of bits that count the blocks 9..15
 * AC refinements: number of bits of the code and the sign 0..4 | run 5..11 | 15: the symbol stands for 16 zeros and has no sign. A symbol that ends blocks:
 * number of bits of the code 0..4 | ENDS + number of bits that count the blocks 5..11
 * DC: symbol | length of its code << 8, or 0; the tables of 256 entries follow each other */
struct scan_shared {
	uint16_t lookup[1 << AC_BITS];
	uint8_t set_before[192]; /* for the current block of a refinement (jpeg_gpu_scan_blocks.cuh) */
};
static_assert(sizeof(struct scan_shared) == STK_JPEG_GPU_SCAN_SHARED, "the size that launches request");
static_assert(3 << DC_BITS <= 1 << AC_BITS, "three DC tables fit");

/* The bits of a bitstream from bit p on. The line is the group of 32 words that contains bit p. Each lane has a word of this line and of the next one. */
struct scan_bits {
	const uint32_t *words;
	uint32_t count, line; /* number of words in the bitstream, and index in the bitstream of the line's first word */
	uint32_t here, following;
	uint32_t p, length;
	uint32_t high, low, word2, word3; /* the word that contains bit p, and the next three words */

	__device__ __forceinline__ uint32_t load(uint32_t i) const
	{
		return i < count ? words[i] : 0;
	}

	/* Returns word i (0 to 63) of this line and the next. */
	__device__ __forceinline__ uint32_t word(uint32_t i) const
	{
		return __shfl_sync(~0u, i < 32 ? here : following, i & 31);
	}

	/* Returns the index in its line of the word that contains bit p. If that word is in the next line, moves to the next line first. */
	__device__ __forceinline__ uint32_t find_line()
	{
		uint32_t i = (p >> 5) - line;
		if (i >= 32) {
			i -= 32;
			line += 32;
			here = following;
			following = load(line + 32 + threadIdx.x % 32);
		}
		return i;
	}

	__device__ __forceinline__ void begin(const stk_jpeg_gpu_view &v, uint32_t bitstream)
	{
		words = stk__jpeg_gpu_words(&v, &v.bitstreams[bitstream]);
		length = v.bit_length[bitstream];
		count = (length + 31) / 32;
		p = line = 0;
		here = load(threadIdx.x % 32);
		following = load(32 + threadIdx.x % 32);
		seek();
	}

	/* Loads the four words from bit p on. p may have moved to any word of this line or the next. */
	__device__ __forceinline__ void seek()
	{
		uint32_t i = find_line();
		high = word(i);
		low = word(i + 1);
		word2 = word(i + 2);
		word3 = word(i + 3);
	}

	/* Moves p forward by 32 bits, and loads the words from there on. */
	__device__ __forceinline__ void step()
	{
		p += 32;
		uint32_t i = find_line();
		high = low;
		low = word2;
		word2 = word3;
		word3 = word(i + 3);
	}

	__device__ __forceinline__ uint32_t ahead() const
	{
		return __funnelshift_l(low, high, p);
	}

	/* Moves p forward. bits: at most 1024, so that bit p stays in this line or the next. */
	__device__ __forceinline__ void skip(uint32_t bits)
	{
		bool same = (p ^ (p + bits)) < 32;
		p += bits;
		if (!same)
			seek();
	}

	__device__ __forceinline__ uint32_t bit(uint32_t at) const
	{
		return load(at >> 5) >> (31 - at % 32) & 1;
	}
};

/* The symbols that may begin in the current word of an AC scan: lane i has the symbol that would begin at bit i. Following the lengths of symbols from one
 * to the next shows which of them really begin; so each symbol costs an exchange between lanes instead of a lookup. A symbol has these fields:
 * in first scans: number of bits of the code and its extra bits 0..7 | number of coefficients to advance 8..15 | value 16..31
 * in refinements: number of bits of the code and the sign 0..4 | 15: the symbol has no sign | run 16..22 */
struct scan_symbols {
	uint32_t here, following; /* following: the entry of `lookup` for the next word, loaded early so that the warp does not wait */

	static __device__ __forceinline__ uint32_t symbol_of(uint32_t entry, uint32_t ahead, bool first)
	{
		if (first)
			return (entry & 31) | entry >> 9 << 8 | (uint32_t)stk__jpeg_gpu_value(entry, ahead) << 16;
		return (entry & 0x801f) | (entry >> 5 & 127) << 16;
	}

	static __device__ __forceinline__ uint32_t ahead(uint32_t high, uint32_t low)
	{
		return __funnelshift_l(low, high, threadIdx.x % 32);
	}

	static __device__ __forceinline__ uint32_t look(uint32_t high, uint32_t low, const scan_shared &shared)
	{
		return shared.lookup[ahead(high, low) >> (32 - AC_BITS)];
	}

	__device__ __forceinline__ void begin(const scan_bits &bits, const scan_shared &shared, bool first)
	{
		here = symbol_of(look(bits.high, bits.low, shared), ahead(bits.high, bits.low), first);
		following = look(bits.low, bits.word2, shared);
	}

	/* Returns the symbol that begins at bit p % 32 of the word. */
	__device__ __forceinline__ uint32_t at(uint32_t p) const
	{
		return __shfl_sync(~0u, here, p);
	}

	/* Moves `bits` to the next word and looks up the symbols there. */
	__device__ __forceinline__ void step(scan_bits &bits, const scan_shared &shared, bool first)
	{
		bits.step();
		here = symbol_of(following, ahead(bits.high, bits.low), first);
		following = look(bits.low, bits.word2, shared);
	}

	__device__ __forceinline__ void move(scan_bits &bits, uint32_t to, const scan_shared &shared, bool first)
	{
#pragma unroll 1
		for (uint32_t words = (to >> 5) - (bits.p >> 5); words; words--)
			step(bits, shared, first);
		bits.p = to;
	}
};

struct scan_warp {
	scan_bits bits;
	scan_symbols symbols;     /* only in AC scans */
	uint32_t bitstream, left; /* left: blocks, or MCUs if the scan has several components, until the restart interval ends */
	uint32_t end_run;         /* number of following blocks that have no symbols of their own */
	int32_t prediction[3];
	uint32_t flags;
};

static __device__ __forceinline__ void restart(
	const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_scan &scan, scan_warp &w, const scan_shared &shared)
{
	w.bits.begin(v, w.bitstream);
	if (scan.start)
		w.symbols.begin(w.bits, shared, !scan.high);
	w.left = scan.interval;
	w.end_run = 0;
#pragma unroll
	for (int i = 0; i < 3; i++)
		w.prediction[i] = 0;
}

/* Continues with the next restart interval if the current one has ended. Returns false, with w.flags set, if bits were missing or a whole byte is left over. */
static __device__ __forceinline__ bool enter_interval(
	const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_scan &scan, scan_warp &w, const scan_shared &shared)
{
	if (w.left)
		return true;
	if (w.bits.p > w.bits.length || w.bits.length - w.bits.p >= 8) {
		w.flags |= w.bits.p > w.bits.length ? STK_JPEG_GPU_SHORT : STK_JPEG_GPU_LEFTOVER;
		return false;
	}
	w.bitstream++;
	restart(v, scan, w, shared);
	return true;
}

#endif
