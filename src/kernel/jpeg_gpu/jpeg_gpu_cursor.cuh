/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of one thread: stk_jpeg_gpu_state and stk_jpeg_gpu_code (jpeg_gpu_symbols.h), arranged so that a symbol takes few instructions and the chain
 * of dependent instructions between symbols is short. Registers hold the data that the next symbol needs: three words of the bits, and the start of its
 * table. Later words come through a ring of WORDS words in shared memory. Each thread has its own ring, filled from global memory by asynchronous copies
 * some symbols ahead, so that no thread's load stalls its warp.
 *
 *     begin(...);
 *     while (any thread of the warp runs) {
 *         GROUP times: entry = look(over() || ...); ... advance(entry);  // threads that wait or have finished execute this too, without effect
 *         if (over()) { ... next_block(); }                              // for several threads at once, instead of at each one's symbol
 *         refill<QUADS>(run);                                            // at the latest after QUADS * 128 / 31 symbols
 *     } */
#ifndef STK_KERNEL_JPEG_GPU_CURSOR_CUH
#define STK_KERNEL_JPEG_GPU_CURSOR_CUH

#include "kernel/common/cuda.cuh"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

/* symbols between checks for the end of a block; a block has about 27 symbols, so few threads wait for such a check */
#define STK_CURSOR_GROUP 4
#define STK_CURSOR_PAD 4 /* unused words between rings: they spread the threads over the banks, and keep the rings aligned to 16 bytes */

template <int WORDS> struct stk_cursor {
	uint32_t p, z, c;           /* as in stk_jpeg_gpu_state */
	uint32_t ahead;             /* the 32 bits from bit p on, as of the last call of look */
	uint32_t high, low, coming; /* the word that contains bit p, and the next two words */
	uint32_t table, ac;         /* offsets in bytes from `tables` to the next symbol's table, and to the block's AC table */

	const char *tables;            /* address in shared or global memory */
	uint32_t split, pairs, blocks; /* from stk_jpeg_gpu_code */
	uint32_t skip, size;           /* for bits v from `split` on, v - skip is their entry's index; size of a table in bytes */

	char *shared;
	const uint32_t *bits;
	uint32_t ring;    /* offset of the ring in `shared`, in bytes */
	uint32_t fetched; /* index in `bits` of the next group of four words to fetch, in groups */

	__device__ __forceinline__ uint32_t word(uint32_t bit) const
	{
		return *(const uint32_t *)(shared + ring + (bit >> 3 & (4 * WORDS - 4)));
	}

	__device__ __forceinline__ void fetch()
	{
		stk__copy_ahead16(shared + ring + (fetched * 16 & (4 * WORDS - 4)), bits + (size_t)fetched * 4);
		fetched++;
	}

	__device__ __forceinline__ void choose_table()
	{
		uint32_t dc = 2 * size * (pairs >> 2 * c & 3);
		ac = dc + size;
		table = z ? ac : dc;
	}

	/* Starts decoding. at: index in `shared_words` of the thread's ring; words: the bits of the bitstream, aligned to 16 bytes. */
	__device__ __forceinline__ void begin(uint32_t *shared_words, uint32_t at, const uint32_t *words, const void *luts,
		const stk_jpeg_gpu_code &code, const stk_jpeg_gpu_state &state)
	{
		shared = (char *)shared_words;
		ring = stk__keep(4 * at);
		bits = words;
		tables = (const char *)luts;
		split = code.split;
		skip = stk__keep(code.split - (code.split >> 6));
		pairs = code.pairs;
		blocks = code.blocks;
		size = 2 * code.size;
		p = state.p;
		z = state.z;
		c = state.c;
		choose_table();
		fetched = p >> 7;
#pragma unroll
		for (int i = 0; i < WORDS / 4; i++)
			fetch();
		stk__copy_commit();
		stk__copy_wait(0);
		high = word(p);
		low = word(p + 32);
		coming = word(p + 64);
	}

	/* Returns the table entry of the next symbol; if `waits` is set, returns 0, for which advance does not move. */
	__device__ __forceinline__ uint32_t look(bool waits)
	{
		ahead = __funnelshift_l(low, high, p);
		uint32_t v = ahead >> 16, entry = *(const uint16_t *)(tables + table + 2 * (v < split ? v >> 6 : v - skip));
		return waits ? 0 : entry;
	}

	/* Moves past the symbol of a table entry. */
	__device__ __forceinline__ void advance(uint32_t entry)
	{
		uint32_t to = p + stk__jpeg_gpu_entry_bits(entry);
		if ((p ^ to) & 32) {
			high = low;
			low = coming;
			coming = word(to + 64);
		}
		p = to;
		z += stk__jpeg_gpu_entry_moves(entry);
		table = ac;
	}

	__device__ __forceinline__ bool over() const
	{
		return z >= 64;
	}

	__device__ __forceinline__ void next_block()
	{
		z = 0;
		c = c + 1 == blocks ? 0 : c + 1;
		choose_table();
	}

	/* Fetches up to QUADS groups of four words into the ring, as far as it has free space, if `run` is set. Waits until all groups that earlier calls
	 * fetched have arrived. */
	template <int QUADS> __device__ __forceinline__ void refill(bool run)
	{
#pragma unroll
		for (int i = 0; i < QUADS; i++)
			if (run && fetched * 4 <= (p >> 5) + WORDS - 4)
				fetch();
		stk__copy_commit();
		stk__copy_wait(1);
	}

	__device__ __forceinline__ uint32_t checkpoint(uint32_t interval_end, uint32_t finished) const
	{
		stk_jpeg_gpu_state state = {p, c, z};
		return stk__jpeg_gpu_pack(&state, interval_end, finished);
	}
};

/* Copies a set's tables to shared memory. entries: a multiple of 8. All threads of the block must call this, and synchronise before they read the tables. */
__device__ __forceinline__ void stk__cursor_load_tables(uint16_t *to, const uint16_t *from, uint32_t entries)
{
	for (uint32_t i = threadIdx.x; i < entries / 8; i += blockDim.x)
		((uint4 *)to)[i] = ((const uint4 *)from)[i];
}

#endif
