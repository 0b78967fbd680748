/* SPDX-License-Identifier: Apache-2.0
 * Phases 2 to 4 of kernel/jpegpar.h: a thread a lane. */
#include "kernel/jpegpar_lane.h"
#include "kernel/jpegpar_ring.cuh"

#define WORDS 32
#define SYMBOLS 8 /* between refills */

struct lane_setup {
	const stk_jpegpar_stream *stream;
	stk_jpegpar_code code;
	uint32_t length, local; /* bits of the stream; segment in it */
};

/* Finds what the lane works on and loads the block's tables. False: the lane has nothing to do. */
static __device__ __forceinline__ bool set_up(const stk_jpegpar_view &v, lane_setup &l, uint16_t *lut)
{
	const stk_jpegpar_work &work = v.sync_work[blockIdx.x];
	const stk_jpegpar_set &set = v.sets[work.set];
	stk__ring_load_tables(lut, v.lut + set.at, set.size * set.tables);
	__syncthreads();
	if (threadIdx.x >= work.count)
		return false;
	uint32_t segment = work.first + threadIdx.x, stream = stk__jpegpar_stream_of_segment(&v, segment);
	l.stream = &v.streams[stream];
	l.code = stk__jpegpar_code(&v.images[l.stream->image], &set);
	l.length = v.bit_length[stream];
	l.local = segment - l.stream->segment0;
	return true;
}

static __device__ __forceinline__ uint16_t *tables()
{
	STK_SHARED_ARRAY(uint32_t, shared);
	return (uint16_t *)(shared + STK_JPEGPAR_SYNC_LANES * (WORDS + STK_RING_PAD));
}

static __device__ __forceinline__ uint32_t *my_ring()
{
	STK_SHARED_ARRAY(uint32_t, shared);
	return shared + threadIdx.x * (WORDS + STK_RING_PAD);
}

extern "C" __global__ void __launch_bounds__(STK_JPEGPAR_SYNC_LANES) jpeg_own(const __grid_constant__ stk_jpegpar_view v)
{
	uint16_t *lut = tables();
	lane_setup l = {};
	bool run = set_up(v, l, lut) && l.local * STK_JPEGPAR_SEGMENT < l.length;
	if (!__any_sync(~0u, run))
		return;
	stk_jpegpar_lane lane = {l.local * STK_JPEGPAR_SEGMENT, 0, 0};
	stk_ring<WORDS> ring;
	ring.start(my_ring(), run ? stk__jpegpar_words(&v, l.stream) : (const uint32_t *)v.bits, lane.p);
	uint32_t *row = run ? stk__jpegpar_row(&v, l.stream, 0) + l.local * STK_JPEGPAR_PER_SEGMENT : NULL;
	uint32_t end = lane.p + STK_JPEGPAR_INTERVAL, last = lane.p + STK_JPEGPAR_SEGMENT, stop = min(end, l.length), blocks = 0;
	while (__any_sync(~0u, run)) {
#pragma unroll
		for (int i = 0; i < SYMBOLS; i++)
			if (run) {
				uint32_t before = lane.p, entry = stk__jpegpar_entry(lut, &l.code, &lane, ring.ahead(lane.p));
				bool finished = stk__jpegpar_step(&lane, &l.code, entry);
				ring.move(before, lane.p);
				blocks += finished && lane.p <= l.length;
				if (lane.p >= stop) {
					*row++ = end >= l.length ? STK_JPEGPAR_END | blocks << 16 : stk__jpegpar_pack(&lane, end, blocks);
					run = end < last && end < l.length;
					end += STK_JPEGPAR_INTERVAL;
					stop = min(end, l.length);
					blocks = 0;
				}
			}
		ring.refill<2>(lane.p);
	}
}

extern "C" __global__ void __launch_bounds__(STK_JPEGPAR_SYNC_LANES) jpeg_over(const __grid_constant__ stk_jpegpar_view v)
{
	uint16_t *lut = tables();
	lane_setup l = {};
	bool run = set_up(v, l, lut);
	uint32_t *match = &v.match[v.sync_work[blockIdx.x].first + threadIdx.x];
	uint32_t k = (l.local + 1) * STK_JPEGPAR_PER_SEGMENT, end = k * STK_JPEGPAR_INTERVAL;
	if (run)
		*match = STK_JPEGPAR_STREAM_END;
	run = run && end < l.length;
	if (!__any_sync(~0u, run))
		return;
	const uint32_t *own = run ? stk__jpegpar_row(&v, l.stream, 0) : v.checkpoints;
	uint32_t *row = run ? stk__jpegpar_row(&v, l.stream, 1) : NULL;
	stk_jpegpar_lane lane = stk__jpegpar_unpack(run ? own[k - 1] : 0, run ? end : 0);
	stk_ring<WORDS> ring;
	ring.start(my_ring(), run ? stk__jpegpar_words(&v, l.stream) : (const uint32_t *)v.bits, lane.p);
	uint32_t blocks = 0, passed = 0;
	end += STK_JPEGPAR_INTERVAL;
	uint32_t stop = min(end, l.length), theirs = run ? own[k] : 0;
	/* Unpacking leaves p at or behind the last checkpoint; an interval always has at least one symbol to decode. */
	while (__any_sync(~0u, run)) {
#pragma unroll
		for (int i = 0; i < SYMBOLS; i++)
			if (run) {
				if (lane.p < stop) {
					uint32_t before = lane.p, entry = stk__jpegpar_entry(lut, &l.code, &lane, ring.ahead(lane.p));
					bool finished = stk__jpegpar_step(&lane, &l.code, entry);
					ring.move(before, lane.p);
					blocks += finished && lane.p <= l.length;
				}
				if (lane.p >= stop) {
					uint32_t mine = end >= l.length ? STK_JPEGPAR_END | blocks << 16 : stk__jpegpar_pack(&lane, end, blocks);
					row[k] = mine;
					bool met = ((mine ^ theirs) & STK_JPEGPAR_STATE) == 0, out = ++passed == (STK_JPEGPAR_ROWS - 1) * STK_JPEGPAR_PER_SEGMENT;
					if (end >= l.length) {
						run = false;
					} else if (met || out) {
						*match = met ? k : STK_JPEGPAR_NONE;
						run = false;
					} else {
						if (passed % STK_JPEGPAR_PER_SEGMENT == 0)
							row += (size_t)v.n_segments * STK_JPEGPAR_PER_SEGMENT;
						theirs = own[++k];
						end += STK_JPEGPAR_INTERVAL;
						stop = min(end, l.length);
						blocks = 0;
					}
				}
			}
		ring.refill<2>(lane.p);
	}
}

/* ---- which lane is right where ---- */

#define CHAIN_THREADS 256
#define TILE 1024

/* As the twin's walk, by one thread out of a tile of matches in shared memory. Returns the lane to go on from, or NONE where it ends. */
static __device__ uint32_t walk(const uint32_t *tile, uint32_t base, uint32_t lane, uint32_t segments, uint32_t *cover, uint32_t *covered)
{
	while (lane < base + TILE && lane + 1 < segments) {
		uint32_t match = tile[lane - base];
		if (match == STK_JPEGPAR_NONE) {
			*covered = lane + 1;
			return STK_JPEGPAR_NONE;
		}
		bool ends = match == STK_JPEGPAR_STREAM_END;
		uint32_t to = ends ? segments - 1 : match / STK_JPEGPAR_PER_SEGMENT;
		for (uint32_t j = lane + 1; j < to; j++)
			cover[j] = (j - lane) << 16 | STK_JPEGPAR_PER_SEGMENT;
		cover[to] = (to - lane) << 16 | (ends ? STK_JPEGPAR_PER_SEGMENT : match % STK_JPEGPAR_PER_SEGMENT + 1);
		lane = to;
		if (ends)
			break;
	}
	return lane + 1 < segments ? lane : STK_JPEGPAR_NONE;
}

static __device__ __forceinline__ uint32_t right_checkpoint(const stk_jpegpar_view &v, const stk_jpegpar_stream &s, uint32_t k)
{
	uint32_t cover = v.cover[s.segment0 + k / STK_JPEGPAR_PER_SEGMENT];
	uint32_t row = k % STK_JPEGPAR_PER_SEGMENT < (cover & 0xffff) ? cover >> 16 : 0;
	return stk__jpegpar_row(&v, &s, row)[k];
}

/* The sum of x over the block's threads before this one; *total: over all. */
static __device__ __forceinline__ uint32_t scan(uint32_t x, uint32_t *sums, uint32_t *total)
{
	uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = x;
#pragma unroll
	for (int step = 1; step < 32; step <<= 1) {
		uint32_t below = __shfl_up_sync(~0u, sum, step);
		sum += lane >= step ? below : 0;
	}
	if (lane == 31)
		sums[warp] = sum;
	__syncthreads();
	uint32_t before = 0, all = 0;
#pragma unroll
	for (uint32_t i = 0; i < CHAIN_THREADS / 32; i++) {
		before += i < warp ? sums[i] : 0;
		all += sums[i];
	}
	__syncthreads();
	*total = all;
	return before + sum - x;
}

extern "C" __global__ void __launch_bounds__(CHAIN_THREADS) jpeg_chain(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ uint32_t tile[TILE], sums[CHAIN_THREADS / 32], next, shared_covered;
	const stk_jpegpar_stream &s = v.streams[blockIdx.x];
	uint32_t length = v.bit_length[blockIdx.x], segments = (length + STK_JPEGPAR_SEGMENT - 1) / STK_JPEGPAR_SEGMENT;
	if (threadIdx.x == 0) {
		next = segments > 1 ? 0 : STK_JPEGPAR_NONE;
		shared_covered = segments;
		v.cover[s.segment0] = 0;
	}
	__syncthreads();
	while (next != STK_JPEGPAR_NONE) {
		uint32_t base = next / TILE * TILE;
		for (uint32_t i = threadIdx.x; i < TILE && base + i < segments; i += CHAIN_THREADS)
			tile[i] = v.match[s.segment0 + base + i];
		__syncthreads();
		if (threadIdx.x == 0)
			next = walk(tile, base, next, segments, v.cover + s.segment0, &shared_covered);
		__syncthreads();
	}
	uint32_t covered = shared_covered, intervals = (length + STK_JPEGPAR_INTERVAL - 1) / STK_JPEGPAR_INTERVAL;
	uint32_t known = min(covered * STK_JPEGPAR_PER_SEGMENT, intervals), pieces = s.segments * STK_JPEGPAR_PIECES, block = 0;
	for (uint32_t first = 0; first < pieces; first += CHAIN_THREADS) {
		uint32_t piece = first + threadIdx.x, k = piece * STK_JPEGPAR_PER_PIECE, count = 0, total;
		uint32_t state = k && k < known ? right_checkpoint(v, s, k - 1) & STK_JPEGPAR_STATE : 0;
		bool here = piece < pieces && k < known;
		for (uint32_t i = 0; here && i < STK_JPEGPAR_PER_PIECE && k + i < known; i++)
			count += right_checkpoint(v, s, k + i) >> 16;
		uint32_t before = block + scan(count, sums, &total);
		block += total;
		if (piece < pieces) {
			stk_jpegpar_start start = {here && before < s.blocks ? before : STK_JPEGPAR_NONE, state};
			v.starts[s.segment0 * STK_JPEGPAR_PIECES + piece] = start;
		}
	}
	if (threadIdx.x == 0 && block < s.blocks)
		atomicOr(&v.flags[s.image], covered < segments ? STK_JPEGPAR_NO_SYNC : STK_JPEGPAR_SHORT);
}
