/* SPDX-License-Identifier: Apache-2.0
 * Phases 5 and 6 of kernel/jpegpar.h. A lane builds its block in shared memory; its warp stores each finished block as one line of 128 bytes. */
#include "kernel/jpegpar_lane.h"
#include "kernel/jpegpar_ring.cuh"

#define WORDS 16
#define SYMBOLS 4     /* between refills */
#define BLOCK_PITCH 33 /* words of a lane's block and one, so that lanes' blocks begin in different banks */

/* Where a lane stands in its stream, and what of it goes where. */
struct writer {
	stk_jpegpar_code code;
	uint32_t length, end;	   /* bits of the stream; bit at which no further block begins */
	uint32_t block, blocks;	   /* current, and how many the window needs */
	uint32_t dc, coef, skip;   /* dc: the stream's first block in v.dc; coef: the same in v.coef, less `skip` blocks that have no place there */
	bool last;
};

static __device__ __forceinline__ bool set_up(const stk_jpegpar_view &v, const stk_jpegpar_set &set, uint32_t piece, writer &w, stk_jpegpar_lane &lane,
	const uint32_t *&words, uint32_t &image_index)
{
	stk_jpegpar_start start = v.starts[piece];
	if (start.block == STK_JPEGPAR_NONE)
		return false;
	uint32_t stream = stk__jpegpar_stream_of_segment(&v, piece / STK_JPEGPAR_PIECES);
	const stk_jpegpar_stream &s = v.streams[stream];
	const stk_jpegpar_image &image = v.images[s.image];
	uint32_t begin = (piece - s.segment0 * STK_JPEGPAR_PIECES) * STK_JPEGPAR_PIECE;
	uint32_t first = s.mcu0 * image.blocks_mcu, window = image.mcu_y0 * image.mcus_x * image.blocks_mcu;
	w.code = stk__jpegpar_code(&image, &set);
	w.length = v.bit_length[stream];
	w.end = min(begin + STK_JPEGPAR_PIECE, w.length);
	w.block = start.block;
	w.blocks = s.blocks;
	w.dc = image.dc0 + first;
	w.coef = image.coef0 + first - window; /* may wrap; with the block added it does not */
	w.skip = window > first ? window - first : 0;
	w.last = s.last;
	lane = stk__jpegpar_unpack(start.state, begin);
	words = stk__jpegpar_words(&v, &s);
	image_index = s.image;
	return true;
}

/* The warp stores the blocks of the lanes in `finished`, one after the other, and clears them for the next. */
static __device__ __forceinline__ void flush(const stk_jpegpar_view &v, uint32_t finished, uint32_t *warp_blocks, uint32_t block, const writer &w)
{
	uint32_t lane = threadIdx.x % 32;
	__syncwarp();
	while (finished) {
		int from = __ffs(finished) - 1;
		uint32_t dc = __shfl_sync(~0u, w.dc + block, from), coef = __shfl_sync(~0u, w.coef + block, from);
		bool inside = __shfl_sync(~0u, block >= w.skip, from);
		uint32_t *line = warp_blocks + from * BLOCK_PITCH + lane;
		uint32_t value = *line;
		*line = 0;
		if (inside)
			((uint32_t *)v.coef)[(size_t)coef * 32 + lane] = value;
		if (lane == 0)
			v.dc[dc] = (int16_t)value;
		finished &= finished - 1;
	}
	__syncwarp();
}

extern "C" __global__ void __launch_bounds__(STK_JPEGPAR_WRITE_LANES) jpeg_write(const __grid_constant__ stk_jpegpar_view v)
{
	STK_SHARED_ARRAY(uint32_t, shared);
	uint32_t *rings = shared, *blocks = shared + STK_JPEGPAR_WRITE_LANES * (WORDS + STK_RING_PAD);
	uint16_t *lut = (uint16_t *)(blocks + STK_JPEGPAR_WRITE_LANES * BLOCK_PITCH);
	const stk_jpegpar_work &work = v.write_work[blockIdx.x];
	const stk_jpegpar_set &set = v.sets[work.set];
	stk__ring_load_tables(lut, v.lut + set.at, set.size * set.tables);
	for (uint32_t i = threadIdx.x; i < STK_JPEGPAR_WRITE_LANES * BLOCK_PITCH; i += STK_JPEGPAR_WRITE_LANES)
		blocks[i] = 0;
	__syncthreads();

	writer w = {};
	stk_jpegpar_lane lane = {};
	const uint32_t *words = (const uint32_t *)v.bits;
	uint32_t image = 0, flags = 0;
	bool run = threadIdx.x < work.count && set_up(v, set, work.first + threadIdx.x, w, lane, words, image);
	run = run && lane.p < w.end && w.block < w.blocks;
	if (!__any_sync(~0u, run))
		return;
	stk_ring<WORDS> ring;
	ring.start(rings + threadIdx.x * (WORDS + STK_RING_PAD), words, lane.p);
	uint32_t *warp_blocks = blocks + threadIdx.x / 32 * 32 * BLOCK_PITCH;
	int16_t *mine = (int16_t *)(blocks + threadIdx.x * BLOCK_PITCH);

	bool skipping = run && lane.z != 0; /* a block that began in an earlier piece */
	while (__any_sync(~0u, skipping)) {
#pragma unroll
		for (int i = 0; i < SYMBOLS; i++)
			if (skipping) {
				uint32_t before = lane.p, entry = stk__jpegpar_entry(lut, &w.code, &lane, ring.ahead(lane.p));
				bool finished = stk__jpegpar_step(&lane, &w.code, entry);
				ring.move(before, lane.p);
				w.block += finished;
				run = lane.p < w.end && w.block < w.blocks;
				if (finished && w.block == w.blocks && !w.last && w.length >= lane.p + 8)
					flags |= STK_JPEGPAR_LEFTOVER;
				skipping = !finished && run;
			}
		ring.refill<1>(lane.p);
	}
	while (__any_sync(~0u, run)) {
#pragma unroll
		for (int i = 0; i < SYMBOLS; i++) {
			bool finished = false;
			uint32_t block = w.block;
			if (run) {
				uint32_t before = lane.p, ahead = ring.ahead(lane.p), entry = stk__jpegpar_entry(lut, &w.code, &lane, ahead);
				uint32_t z = lane.z + stk__jpegpar_entry_moves(entry);
				if (entry >> 5 & 15)
					mine[(z - 1) & 63] = (int16_t)stk__jpegpar_value(entry, ahead);
				flags |= entry >> 13 & STK_JPEGPAR_BAD_CODE; /* bit 14 */
				finished = stk__jpegpar_step(&lane, &w.code, entry);
				ring.move(before, lane.p);
				if (finished) {
					if (z > 64 && stk__jpegpar_entry_moves(entry) < 64)
						flags |= STK_JPEGPAR_OVERRUN;
					if (++w.block == w.blocks && !w.last && w.length >= lane.p + 8)
						flags |= STK_JPEGPAR_LEFTOVER;
					run = lane.p < w.end && w.block < w.blocks;
				}
			}
			uint32_t done = __ballot_sync(~0u, finished);
			if (done)
				flush(v, done, warp_blocks, block, w);
		}
		ring.refill<1>(lane.p);
	}
	if (flags)
		atomicOr(&v.flags[image], flags);
}

#define DC_THREADS 256
#define COMPONENTS 3

/* Sums of each component over the threads before this one, with what came before the block's MCUs; carry moves on by the total. */
static __device__ __forceinline__ void scan(int32_t sum[COMPONENTS], int32_t carry[COMPONENTS], int32_t (*sums)[DC_THREADS / 32])
{
	uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int32_t own[COMPONENTS];
#pragma unroll
	for (int c = 0; c < COMPONENTS; c++) {
		own[c] = sum[c];
#pragma unroll
		for (int step = 1; step < 32; step <<= 1) {
			int32_t below = __shfl_up_sync(~0u, sum[c], step);
			sum[c] += lane >= step ? below : 0;
		}
		if (lane == 31)
			sums[c][warp] = sum[c];
	}
	__syncthreads();
#pragma unroll
	for (int c = 0; c < COMPONENTS; c++) {
		sum[c] += carry[c] - own[c];
#pragma unroll
		for (uint32_t i = 0; i < DC_THREADS / 32; i++) {
			sum[c] += i < warp ? sums[c][i] : 0;
			carry[c] += sums[c][i];
		}
	}
	__syncthreads();
}

/* An MCU a thread, 256 MCUs at a time. */
extern "C" __global__ void __launch_bounds__(DC_THREADS) jpeg_dc(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ int32_t sums[COMPONENTS][DC_THREADS / 32];
	const stk_jpegpar_stream &s = v.streams[blockIdx.x];
	const stk_jpegpar_image &image = v.images[s.image];
	uint32_t blocks = image.blocks_mcu, places = image.places, mcus = s.blocks / blocks;
	int16_t *dc = v.dc + image.dc0 + (size_t)s.mcu0 * blocks;
	int32_t carry[COMPONENTS] = {};
	bool outside = false;
	for (uint32_t first = 0; first < mcus; first += DC_THREADS) {
		uint32_t mcu = first + threadIdx.x;
		int32_t difference[STK_JPEG_MAX_BLOCKS], sum[COMPONENTS] = {};
#pragma unroll
		for (int b = 0; b < STK_JPEG_MAX_BLOCKS; b++)
			if (b < blocks && mcu < mcus) {
				difference[b] = dc[(size_t)mcu * blocks + b];
#pragma unroll
				for (int c = 0; c < COMPONENTS; c++)
					sum[c] += (places >> 2 * b & 3) == c ? difference[b] : 0;
			}
		scan(sum, carry, sums);
#pragma unroll
		for (int b = 0; b < STK_JPEG_MAX_BLOCKS; b++)
			if (b < blocks && mcu < mcus) {
				int32_t value = 0;
#pragma unroll
				for (int c = 0; c < COMPONENTS; c++) {
					bool it = (places >> 2 * b & 3) == c;
					sum[c] += it ? difference[b] : 0;
					value = it ? sum[c] : value;
				}
				outside |= value != (int16_t)value;
				dc[(size_t)mcu * blocks + b] = (int16_t)value;
			}
	}
	if (outside)
		atomicOr(&v.flags[s.image], STK_JPEGPAR_DC_RANGE);
}
