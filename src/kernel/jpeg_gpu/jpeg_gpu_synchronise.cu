/* SPDX-License-Identifier: Apache-2.0
 * Phases 2 to 4 of kernel/jpeg_gpu/jpeg_gpu.h: a thread a lane. Lanes that meet no other soon would hold up their warps: jpeg_near notes them, jpeg_far gathers
 * them. */
#include "kernel/jpeg_gpu/jpeg_gpu_cursor.cuh"

#define WORDS 32
#define GROUPS 2 /* between refills */
#define RING (WORDS + STK_CURSOR_PAD) /* words of a lane: the cursor's, and some of its own */
#define NEVER 0xffffffffu /* the stop of a lane that runs no more: it goes along with its warp */

typedef stk_cursor<WORDS> cursor;

struct lane_setup {
	const stk_jpegpar_stream *stream;
	stk_jpegpar_code code;
	uint32_t length, local; /* bits of the stream; segment in it */
};

static __device__ __forceinline__ lane_setup idle()
{
	lane_setup l = {NULL, stk__jpegpar_no_code(), 0, 0};
	return l;
}

static __device__ __forceinline__ lane_setup set_up(const stk_jpegpar_view &v, uint32_t segment)
{
	lane_setup l;
	uint32_t stream = stk__jpegpar_stream_of_segment(&v, segment);
	l.stream = &v.streams[stream];
	const stk_jpegpar_image &image = v.images[l.stream->image];
	l.code = stk__jpegpar_code(&image, &v.sets[image.set]);
	l.length = v.bit_length[stream];
	l.local = segment - l.stream->segment0;
	return l;
}

/* Loads the block's tables behind its rings. */
static __device__ __forceinline__ const uint16_t *load_tables(const stk_jpegpar_view &v, const stk_jpegpar_work &work, uint32_t *shared)
{
	const stk_jpegpar_set &set = v.sets[work.set];
	uint16_t *lut = (uint16_t *)(shared + STK_JPEGPAR_SYNC_LANES * RING);
	stk__cursor_load_tables(lut, v.lut + set.at, set.size * set.tables);
	__syncthreads();
	return lut;
}

/* Some symbols, but none from bit `stop` on or behind a block's last. Blocks that were finished before the stream's end, 0 or 1. */
static __device__ __forceinline__ uint32_t group(cursor &at, uint32_t stop, uint32_t length)
{
#pragma unroll
	for (int i = 0; i < STK_CURSOR_GROUP; i++)
		at.advance(at.look(at.over() || at.p >= stop));
	if (!at.over())
		return 0;
	at.next_block();
	return at.p <= length;
}

extern "C" __global__ void __launch_bounds__(STK_JPEGPAR_SYNC_LANES) jpeg_own(const __grid_constant__ stk_jpegpar_view v)
{
	STK_SHARED_ARRAY(uint32_t, shared);
	const stk_jpegpar_work &work = v.sync_work[blockIdx.x];
	const uint16_t *lut = load_tables(v, work, shared);
	lane_setup l = idle();
	bool run = threadIdx.x < work.count;
	if (run)
		l = set_up(v, work.first + threadIdx.x);
	run = run && l.local * STK_JPEGPAR_SEGMENT < l.length;
	if (!__any_sync(~0u, run))
		return;
	stk_jpegpar_lane lane = {run ? l.local * STK_JPEGPAR_SEGMENT : 0, 0, 0};
	cursor at;
	at.begin(shared, threadIdx.x * RING, run ? stk__jpegpar_words(&v, l.stream) : (const uint32_t *)v.bits, lut, l.code, lane);
	uint32_t *row = run ? stk__jpegpar_row(&v, l.stream, 0) + l.local * STK_JPEGPAR_PER_SEGMENT : v.checkpoints;
	uint32_t end = lane.p + STK_JPEGPAR_INTERVAL, last = min(lane.p + STK_JPEGPAR_SEGMENT, l.length), stop = run ? min(end, l.length) : NEVER, blocks = 0;
	while (__any_sync(~0u, stop != NEVER)) {
#pragma unroll
		for (int i = 0; i < GROUPS; i++) {
			blocks += group(at, stop, l.length);
			if (at.p >= stop) {
				*row++ = end >= l.length ? STK_JPEGPAR_END | blocks << 16 : at.checkpoint(end, blocks);
				stop = end < last ? min(end + STK_JPEGPAR_INTERVAL, l.length) : NEVER;
				end += STK_JPEGPAR_INTERVAL;
				blocks = 0;
			}
		}
		at.refill<2>(stop != NEVER);
	}
}

/* Decodes on from interval `first` behind the segment, which is interval k of the stream, to before `end`. Gives the interval where the lane met another,
 * STREAM_END, or NONE. All threads of the warp call it. theirs: two words of the lane's in shared memory, for what row 0 has at this and the next
 * checkpoint: a load at each would stall all lanes of the warp for the sake of one. */
static __device__ __forceinline__ uint32_t follow(
	const stk_jpegpar_view &v, const lane_setup &l, bool run, cursor &at, uint32_t k, uint32_t first, uint32_t end_interval, uint32_t *theirs)
{
	const uint32_t *own = run ? stk__jpegpar_row(&v, l.stream, 0) : v.checkpoints;
	uint32_t *row = run ? stk__jpegpar_row(&v, l.stream, 1 + first / STK_JPEGPAR_PER_SEGMENT) : v.checkpoints;
	uint32_t end = (k + 1) * STK_JPEGPAR_INTERVAL, stop = run ? min(end, l.length) : NEVER;
	uint32_t blocks = 0, met = STK_JPEGPAR_NONE, left = end_interval - first;
	stk__copy_ahead4(theirs + k % 2, own + k);
	stk__copy_ahead4(theirs + (k + 1) % 2, own + k + 1); /* behind row 0 there are others */
	stk__copy_commit();
	stk__copy_wait(0);
	while (__any_sync(~0u, stop != NEVER)) {
#pragma unroll
		for (int i = 0; i < GROUPS; i++) {
			blocks += group(at, stop, l.length);
			if (at.p >= stop) {
				bool over = end >= l.length;
				uint32_t mine = over ? STK_JPEGPAR_END | blocks << 16 : at.checkpoint(end, blocks);
				row[k] = mine;
				stop = NEVER;
				if (over)
					met = STK_JPEGPAR_STREAM_END;
				else if (((mine ^ theirs[k % 2]) & STK_JPEGPAR_STATE) == 0)
					met = k;
				else if (--left) {
					stk__copy_ahead4(theirs + k % 2, own + k + 2); /* committed with the next refill, and there some refills later */
					if (++k % STK_JPEGPAR_PER_SEGMENT == 0)
						row += (size_t)v.n_segments * STK_JPEGPAR_PER_SEGMENT;
					end += STK_JPEGPAR_INTERVAL;
					stop = min(end, l.length);
					blocks = 0;
				}
			}
		}
		at.refill<2>(stop != NEVER);
	}
	return met;
}

/* Where the lane is when interval `first` behind its segment begins, which is interval k of the stream. */
static __device__ __forceinline__ stk_jpegpar_lane lane_at(const stk_jpegpar_view &v, const lane_setup &l, uint32_t k, uint32_t first)
{
	const uint32_t *row = stk__jpegpar_row(&v, l.stream, (first + STK_JPEGPAR_PER_SEGMENT - 1) / STK_JPEGPAR_PER_SEGMENT);
	return stk__jpegpar_unpack(row[k - 1], k * STK_JPEGPAR_INTERVAL);
}

extern "C" __global__ void __launch_bounds__(STK_JPEGPAR_SYNC_LANES) jpeg_near(const __grid_constant__ stk_jpegpar_view v)
{
	STK_SHARED_ARRAY(uint32_t, shared);
	const stk_jpegpar_work &work = v.sync_work[blockIdx.x];
	const uint16_t *lut = load_tables(v, work, shared);
	uint32_t segment = work.first + threadIdx.x;
	lane_setup l = idle();
	bool mine = threadIdx.x < work.count;
	if (mine)
		l = set_up(v, segment);
	uint32_t k = (l.local + 1) * STK_JPEGPAR_PER_SEGMENT, met = STK_JPEGPAR_STREAM_END;
	bool run = mine && k * STK_JPEGPAR_INTERVAL < l.length;
	if (__any_sync(~0u, run)) {
		stk_jpegpar_lane lane = {};
		if (run)
			lane = lane_at(v, l, k, 0);
		cursor at;
		at.begin(shared, threadIdx.x * RING, run ? stk__jpegpar_words(&v, l.stream) : (const uint32_t *)v.bits, lut, l.code, lane);
		uint32_t found = follow(v, l, run, at, k, 0, STK_JPEGPAR_NEAR, shared + threadIdx.x * RING + WORDS);
		met = run ? found : met;
	}
	if (!mine)
		return;
	v.match[segment] = met;
	if (met == STK_JPEGPAR_NONE)
		v.far[atomicAdd(v.n_far, 1)] = segment;
}

extern "C" __global__ void __launch_bounds__(STK_JPEGPAR_FAR_LANES) jpeg_far(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ __align__(16) uint32_t shared[STK_JPEGPAR_FAR_LANES * RING];
	uint32_t index = blockIdx.x * STK_JPEGPAR_FAR_LANES + threadIdx.x;
	bool run = index < *v.n_far;
	if (!__any_sync(~0u, run))
		return;
	lane_setup l = idle();
	stk_jpegpar_lane lane = {};
	uint32_t segment = 0, k = 0;
	const uint32_t *words = (const uint32_t *)v.bits;
	const uint16_t *lut = v.lut;
	if (run) {
		segment = v.far[index];
		l = set_up(v, segment);
		k = (l.local + 1) * STK_JPEGPAR_PER_SEGMENT + STK_JPEGPAR_NEAR;
		lane = lane_at(v, l, k, STK_JPEGPAR_NEAR);
		words = stk__jpegpar_words(&v, l.stream);
		lut += v.sets[v.images[l.stream->image].set].at;
	}
	cursor at;
	at.begin(shared, threadIdx.x * RING, words, lut, l.code, lane); /* lanes may have tables of their own: those stay in global memory */
	uint32_t met = follow(
		v, l, run, at, k, STK_JPEGPAR_NEAR, (STK_JPEGPAR_ROWS - 1) * STK_JPEGPAR_PER_SEGMENT, shared + threadIdx.x * RING + WORDS);
	if (run)
		v.match[segment] = met;
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
