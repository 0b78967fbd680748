/* SPDX-License-Identifier: Apache-2.0
 * Phases decode_subsequences to resolve of jpeg_gpu.h. In resolve, a thread block processes a bitstream; before it, a thread processes a subsequence. */
#include "kernel/jpeg_gpu/jpeg_gpu_cursor.cuh"

#define WORDS 32
#define GROUPS 2                      /* groups of symbols between refills */
#define RING (WORDS + STK_CURSOR_PAD) /* words for each thread: the cursor's ring, and unused words between rings */
#define NEVER 0xffffffffu             /* the value of `stop` for a thread that has no work left; it still runs with its warp */

typedef stk_cursor<WORDS> cursor;

struct thread_setup {
	const stk_jpeg_gpu_bitstream *bitstream;
	stk_jpeg_gpu_code code;
	uint32_t length, local; /* length of the bitstream in bits; index of the subsequence in it */
};

static __device__ __forceinline__ thread_setup idle()
{
	thread_setup l = {NULL, stk__jpeg_gpu_no_code(), 0, 0};
	return l;
}

static __device__ __forceinline__ thread_setup set_up(const stk_jpeg_gpu_view &v, uint32_t subsequence)
{
	thread_setup l;
	uint32_t bitstream = stk__jpeg_gpu_bitstream_of_subsequence(&v, subsequence);
	l.bitstream = &v.bitstreams[bitstream];
	const stk_jpeg_gpu_image &image = v.images[l.bitstream->image];
	l.code = stk__jpeg_gpu_code(&image, &v.sets[image.set]);
	l.length = v.bit_length[bitstream];
	l.local = subsequence - l.bitstream->subsequence0;
	return l;
}

/* Copies the tables of the thread block to shared memory, after the rings, and returns their address. All threads of the block must call this. */
static __device__ __forceinline__ const uint16_t *load_tables(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_work &work, uint32_t *shared)
{
	const stk_jpeg_gpu_set &set = v.sets[work.set];
	uint16_t *lut = (uint16_t *)(shared + STK_JPEG_GPU_SYNC_THREADS * RING);
	stk__cursor_load_tables(lut, v.lut + set.at, set.size * set.tables);
	__syncthreads();
	return lut;
}

/* Decodes up to STK_CURSOR_GROUP symbols, to bit `stop` or the block's end. Returns the number of blocks (0 or 1) finished before the bitstream's end. */
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

extern "C" __global__ void __launch_bounds__(STK_JPEG_GPU_SYNC_THREADS)
	jpeg_gpu_decode_subsequences(const __grid_constant__ stk_jpeg_gpu_view v)
{
	STK_SHARED_ARRAY(uint32_t, shared);
	const stk_jpeg_gpu_work &work = v.sync_work[blockIdx.x];
	const uint16_t *lut = load_tables(v, work, shared);
	thread_setup l = idle();
	bool run = threadIdx.x < work.count;
	if (run)
		l = set_up(v, work.first + threadIdx.x);
	run = run && l.local * STK_JPEG_GPU_SUBSEQUENCE < l.length;
	if (!__any_sync(~0u, run))
		return;
	stk_jpeg_gpu_state state = {run ? l.local * STK_JPEG_GPU_SUBSEQUENCE : 0, 0, 0};
	cursor at;
	at.begin(shared, threadIdx.x * RING, run ? stk__jpeg_gpu_words(&v, l.bitstream) : (const uint32_t *)v.bits, lut, l.code, state);
	uint32_t *row = run ? stk__jpeg_gpu_row(&v, l.bitstream, 0) + l.local * STK_JPEG_GPU_PER_SUBSEQUENCE : v.checkpoints;
	uint32_t end = state.p + STK_JPEG_GPU_INTERVAL, last = min(state.p + STK_JPEG_GPU_SUBSEQUENCE, l.length),
		 stop = run ? min(end, l.length) : NEVER, blocks = 0;
	while (__any_sync(~0u, stop != NEVER)) {
#pragma unroll
		for (int i = 0; i < GROUPS; i++) {
			blocks += group(at, stop, l.length);
			if (at.p >= stop) {
				*row++ = end >= l.length ? STK_JPEG_GPU_END | blocks << 16 : at.checkpoint(end, blocks);
				stop = end < last ? min(end + STK_JPEG_GPU_INTERVAL, l.length) : NEVER;
				end += STK_JPEG_GPU_INTERVAL;
				blocks = 0;
			}
		}
		at.refill<2>(stop != NEVER);
	}
}

/* Continues past the subsequence, into intervals `first` to end_interval - 1 after it; interval `first` is interval k of the bitstream. Returns the interval
 * of the bitstream in which the thread synchronised; BITSTREAM_END if the bitstream ends first; or NONE if the thread did not synchronise. All threads of the
 * warp must call this. theirs: two words of shared memory for this thread, which receive the checkpoints of the current and the next interval from
 * row 0. They are copied ahead of time, since a load by one thread would stall all threads of the warp. */
static __device__ __forceinline__ uint32_t overflow(const stk_jpeg_gpu_view &v, const thread_setup &l, bool run, cursor &at, uint32_t k,
	uint32_t first, uint32_t end_interval, uint32_t *theirs)
{
	const uint32_t *row0 = run ? stk__jpeg_gpu_row(&v, l.bitstream, 0) : v.checkpoints;
	uint32_t *row = run ? stk__jpeg_gpu_row(&v, l.bitstream, 1 + first / STK_JPEG_GPU_PER_SUBSEQUENCE) : v.checkpoints;
	uint32_t end = (k + 1) * STK_JPEG_GPU_INTERVAL, stop = run ? min(end, l.length) : NEVER;
	uint32_t blocks = 0, met = STK_JPEG_GPU_NONE, left = end_interval - first;
	stk__copy_ahead4(theirs + k % 2, row0 + k);
	stk__copy_ahead4(theirs + (k + 1) % 2, row0 + k + 1); /* for the batch's last interval this reads the start of row 1 */
	stk__copy_commit();
	stk__copy_wait(0);
	while (__any_sync(~0u, stop != NEVER)) {
#pragma unroll
		for (int i = 0; i < GROUPS; i++) {
			blocks += group(at, stop, l.length);
			if (at.p >= stop) {
				bool over = end >= l.length;
				uint32_t mine = over ? STK_JPEG_GPU_END | blocks << 16 : at.checkpoint(end, blocks);
				row[k] = mine;
				stop = NEVER;
				if (over)
					met = STK_JPEG_GPU_BITSTREAM_END;
				else if (((mine ^ theirs[k % 2]) & STK_JPEG_GPU_STATE) == 0)
					met = k;
				else if (--left) {
					/* The next refill commits this copy, which then completes during later refills. */
					stk__copy_ahead4(theirs + k % 2, row0 + k + 2);
					if (++k % STK_JPEG_GPU_PER_SUBSEQUENCE == 0)
						row += (size_t)v.n_subsequences * STK_JPEG_GPU_PER_SUBSEQUENCE;
					end += STK_JPEG_GPU_INTERVAL;
					stop = min(end, l.length);
					blocks = 0;
				}
			}
		}
		at.refill<2>(stop != NEVER);
	}
	return met;
}

/* Returns the thread's state at the start of an interval: interval `first` after its subsequence, which is interval k of the bitstream. */
static __device__ __forceinline__ stk_jpeg_gpu_state state_at(const stk_jpeg_gpu_view &v, const thread_setup &l, uint32_t k, uint32_t first)
{
	const uint32_t *row = stk__jpeg_gpu_row(&v, l.bitstream, (first + STK_JPEG_GPU_PER_SUBSEQUENCE - 1) / STK_JPEG_GPU_PER_SUBSEQUENCE);
	return stk__jpeg_gpu_unpack(row[k - 1], k * STK_JPEG_GPU_INTERVAL);
}

extern "C" __global__ void __launch_bounds__(STK_JPEG_GPU_SYNC_THREADS) jpeg_gpu_synchronise(const __grid_constant__ stk_jpeg_gpu_view v)
{
	STK_SHARED_ARRAY(uint32_t, shared);
	const stk_jpeg_gpu_work &work = v.sync_work[blockIdx.x];
	const uint16_t *lut = load_tables(v, work, shared);
	uint32_t subsequence = work.first + threadIdx.x;
	thread_setup l = idle();
	bool mine = threadIdx.x < work.count;
	if (mine)
		l = set_up(v, subsequence);
	uint32_t k = (l.local + 1) * STK_JPEG_GPU_PER_SUBSEQUENCE, met = STK_JPEG_GPU_BITSTREAM_END;
	bool run = mine && k * STK_JPEG_GPU_INTERVAL < l.length;
	if (__any_sync(~0u, run)) {
		stk_jpeg_gpu_state state = {};
		if (run)
			state = state_at(v, l, k, 0);
		cursor at;
		at.begin(shared, threadIdx.x * RING, run ? stk__jpeg_gpu_words(&v, l.bitstream) : (const uint32_t *)v.bits, lut, l.code,
			state);
		uint32_t found = overflow(v, l, run, at, k, 0, STK_JPEG_GPU_SYNC_INTERVALS, shared + threadIdx.x * RING + WORDS);
		met = run ? found : met;
	}
	if (!mine)
		return;
	v.match[subsequence] = met;
	if (met == STK_JPEG_GPU_NONE)
		v.stragglers[atomicAdd(v.n_stragglers, 1)] = subsequence;
}

extern "C" __global__ void __launch_bounds__(STK_JPEG_GPU_STRAGGLER_THREADS)
	jpeg_gpu_synchronise_stragglers(const __grid_constant__ stk_jpeg_gpu_view v)
{
	__shared__ __align__(16) uint32_t shared[STK_JPEG_GPU_STRAGGLER_THREADS * RING];
	uint32_t index = blockIdx.x * STK_JPEG_GPU_STRAGGLER_THREADS + threadIdx.x;
	bool run = index < *v.n_stragglers;
	if (!__any_sync(~0u, run))
		return;
	thread_setup l = idle();
	stk_jpeg_gpu_state state = {};
	uint32_t subsequence = 0, k = 0;
	const uint32_t *words = (const uint32_t *)v.bits;
	const uint16_t *lut = v.lut;
	if (run) {
		subsequence = v.stragglers[index];
		l = set_up(v, subsequence);
		k = (l.local + 1) * STK_JPEG_GPU_PER_SUBSEQUENCE + STK_JPEG_GPU_SYNC_INTERVALS;
		state = state_at(v, l, k, STK_JPEG_GPU_SYNC_INTERVALS);
		words = stk__jpeg_gpu_words(&v, l.bitstream);
		lut += v.sets[v.images[l.bitstream->image].set].at;
	}
	cursor at; /* the tables stay in global memory, since each thread may need others */
	at.begin(shared, threadIdx.x * RING, words, lut, l.code, state);
	uint32_t met = overflow(v, l, run, at, k, STK_JPEG_GPU_SYNC_INTERVALS, (STK_JPEG_GPU_ROWS - 1) * STK_JPEG_GPU_PER_SUBSEQUENCE,
		shared + threadIdx.x * RING + WORDS);
	if (run)
		v.match[subsequence] = met;
}

/* ---- phase resolve ---- */

#define RESOLVE_THREADS 256
#define TILE 1024

/* Goes from subsequence `from` to the one with which its thread synchronised, from there to the next one, and so on, within the part of v.match in `tile`
 * (shared memory, from subsequence `base` on). Writes `cover` (stk_jpeg_gpu_view) of all subsequences that it passes. Only one thread runs this. Returns
 * the subsequence from which to continue, or NONE at the end. If a thread did not synchronise, sets *covered to the number of subsequences up to its own
 * and returns NONE. */
static __device__ uint32_t walk(
	const uint32_t *tile, uint32_t base, uint32_t from, uint32_t subsequences, uint32_t *cover, uint32_t *covered)
{
	while (from < base + TILE && from + 1 < subsequences) {
		uint32_t match = tile[from - base];
		if (match == STK_JPEG_GPU_NONE) {
			*covered = from + 1;
			return STK_JPEG_GPU_NONE;
		}
		bool ends = match == STK_JPEG_GPU_BITSTREAM_END;
		uint32_t to = ends ? subsequences - 1 : match / STK_JPEG_GPU_PER_SUBSEQUENCE;
		for (uint32_t j = from + 1; j < to; j++)
			cover[j] = (j - from) << 16 | STK_JPEG_GPU_PER_SUBSEQUENCE;
		cover[to] = (to - from) << 16 | (ends ? STK_JPEG_GPU_PER_SUBSEQUENCE : match % STK_JPEG_GPU_PER_SUBSEQUENCE + 1);
		from = to;
		if (ends)
			break;
	}
	return from + 1 < subsequences ? from : STK_JPEG_GPU_NONE;
}

static __device__ __forceinline__ uint32_t right_checkpoint(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_bitstream &s, uint32_t k)
{
	uint32_t cover = v.cover[s.subsequence0 + k / STK_JPEG_GPU_PER_SUBSEQUENCE];
	uint32_t row = k % STK_JPEG_GPU_PER_SUBSEQUENCE < (cover & 0xffff) ? cover >> 16 : 0;
	return stk__jpeg_gpu_row(&v, &s, row)[k];
}

/* Returns the sum of x over the threads of the block before this one. *total: the sum over all threads. sums: shared memory for one number of each warp. */
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
	for (uint32_t i = 0; i < RESOLVE_THREADS / 32; i++) {
		before += i < warp ? sums[i] : 0;
		all += sums[i];
	}
	__syncthreads();
	*total = all;
	return before + sum - x;
}

extern "C" __global__ void __launch_bounds__(RESOLVE_THREADS) jpeg_gpu_resolve(const __grid_constant__ stk_jpeg_gpu_view v)
{
	__shared__ uint32_t tile[TILE], sums[RESOLVE_THREADS / 32], next, shared_covered;
	const stk_jpeg_gpu_bitstream &s = v.bitstreams[blockIdx.x];
	uint32_t length = v.bit_length[blockIdx.x], subsequences = (length + STK_JPEG_GPU_SUBSEQUENCE - 1) / STK_JPEG_GPU_SUBSEQUENCE;
	if (threadIdx.x == 0) {
		next = subsequences > 1 ? 0 : STK_JPEG_GPU_NONE;
		shared_covered = subsequences;
		v.cover[s.subsequence0] = 0;
	}
	__syncthreads();
	while (next != STK_JPEG_GPU_NONE) {
		uint32_t base = next / TILE * TILE;
		for (uint32_t i = threadIdx.x; i < TILE && base + i < subsequences; i += RESOLVE_THREADS)
			tile[i] = v.match[s.subsequence0 + base + i];
		__syncthreads();
		if (threadIdx.x == 0)
			next = walk(tile, base, next, subsequences, v.cover + s.subsequence0, &shared_covered);
		__syncthreads();
	}
	uint32_t covered = shared_covered, intervals = (length + STK_JPEG_GPU_INTERVAL - 1) / STK_JPEG_GPU_INTERVAL;
	uint32_t known = min(covered * STK_JPEG_GPU_PER_SUBSEQUENCE, intervals), pieces = s.subsequences * STK_JPEG_GPU_PIECES, block = 0;
	for (uint32_t first = 0; first < pieces; first += RESOLVE_THREADS) {
		uint32_t piece = first + threadIdx.x, k = piece * STK_JPEG_GPU_PER_PIECE, count = 0, total;
		uint32_t state = k && k < known ? right_checkpoint(v, s, k - 1) & STK_JPEG_GPU_STATE : 0;
		bool here = piece < pieces && k < known;
		for (uint32_t i = 0; here && i < STK_JPEG_GPU_PER_PIECE && k + i < known; i++)
			count += right_checkpoint(v, s, k + i) >> 16;
		uint32_t before = block + scan(count, sums, &total);
		block += total;
		if (piece < pieces) {
			stk_jpeg_gpu_start start = {here && before < s.blocks ? before : STK_JPEG_GPU_NONE, state};
			v.starts[s.subsequence0 * STK_JPEG_GPU_PIECES + piece] = start;
		}
	}
	if (threadIdx.x == 0 && block < s.blocks)
		atomicOr(&v.flags[s.image], covered < subsequences ? STK_JPEG_GPU_NO_SYNC : STK_JPEG_GPU_SHORT);
}
