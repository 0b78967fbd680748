/* SPDX-License-Identifier: Apache-2.0
 * Reductions of bytes on the GPU, and measurements for normalisation, in the two forms of reduce_bytes.h. */
#include "kernel/job/job_find.cuh"
#include "kernel/reduce/normalize_one.h"
#include "kernel/reduce/reduce_bytes.h"

#define THREADS STK_JOB_THREADS
#define POSITIONS STK_JOB_COLUMNS
#define CHUNKS STK_JOB_COLUMNS_CHUNKS
#define CHUNK STK_JOB_COLUMNS_CHUNK

/* ---- columns ---- */

/* The results that can be computed from a job's bytes. LEAST is computed as the maximum of the bytes' complements. */
enum what { SUMS, SQUARES, SUMS_AND_SQUARES, GREATEST, LEAST };

static __device__ __forceinline__ what what_of(const stk_job &job)
{
	if (job.kind == STK_JOB_normalize)
		return SUMS_AND_SQUARES;
	int32_t op = STK_PARAMS(stk_job_reduce, &job).op;
	return op == STK_REDUCE_MIN                            ? LEAST
	       : op == STK_REDUCE_MAX                          ? GREATEST
	       : op == STK_REDUCE_SUM || op == STK_REDUCE_MEAN ? SUMS
							       : SQUARES;
}

/* A job's bytes: `lead` bytes before the first aligned chunk, the chunks, and the bytes after the last chunk. */
struct stretch {
	const uint8_t *src;
	uint32_t n, lead, chunks;
};

static __device__ __forceinline__ stretch stretch_of(const stk_job &job)
{
	const stk_job_groups &g = *stk__job_groups_of(&job);
	stretch s = {job.src[0], g.groups * g.count, 0, 0};
	s.lead = min(s.n, (uint32_t)(0 - (uintptr_t)s.src) % CHUNK);
	s.chunks = (s.n - s.lead) / CHUNK;
	return s;
}

/* A thread's results, separately for each offset of a byte from the thread's first byte, modulo POSITIONS. For extremes, `sum` is the largest byte. */
struct found {
	uint32_t sum[POSITIONS], squares[POSITIONS];
};

template <what WHAT> static __device__ __forceinline__ void take(found &f, int p, uint32_t byte)
{
	if (WHAT == SUMS || WHAT == SUMS_AND_SQUARES)
		f.sum[p] += byte;
	if (WHAT == SQUARES || WHAT == SUMS_AND_SQUARES)
		f.squares[p] += byte * byte;
	if (WHAT == GREATEST || WHAT == LEAST)
		f.sum[p] = max(f.sum[p], byte);
}

/* Processes the chunks of the thread block. Each thread takes every 256th chunk, three of them per turn of the loop. The length of 256 chunks is 4 modulo
 * POSITIONS, so the three chunks begin at positions 0, 4 and 8, counted from the thread's first byte. */
template <what WHAT> static __device__ __forceinline__ void take_chunks(const stretch &s, uint32_t block, found &f)
{
	const uint4 *from = (const uint4 *)(s.src + s.lead);
	uint32_t first = block * CHUNKS + threadIdx.x;
#pragma unroll 1
	for (uint32_t at = first; at < s.chunks && at < first + CHUNKS; at += 3 * THREADS) {
		uint4 w[3];
#pragma unroll
		for (int k = 0; k < 3; k++) {
			w[k] = make_uint4(0, 0, 0, 0);
			if (at + k * THREADS < s.chunks) {
				w[k] = __ldg(from + at + k * THREADS);
				if (WHAT == LEAST)
					w[k] = make_uint4(~w[k].x, ~w[k].y, ~w[k].z, ~w[k].w);
			}
		}
#pragma unroll
		for (int k = 0; k < 3; k++) {
			const uint32_t word[4] = {w[k].x, w[k].y, w[k].z, w[k].w};
#pragma unroll
			for (int j = 0; j < CHUNK; j++)
				take<WHAT>(f, (4 * k + j) % POSITIONS, word[j / 4] >> 8 * (j % 4) & 255);
		}
	}
}

/* Returns the thread's result for position p, counted from the first aligned chunk. The thread's first byte has position 4 * phase, modulo POSITIONS. */
static __device__ __forceinline__ uint32_t at_position(const uint32_t *mine, int p, uint32_t phase)
{
	return phase == 0 ? mine[p] : phase == 1 ? mine[(p + 8) % POSITIONS] : mine[(p + 4) % POSITIONS];
}

/* Adds the results of all threads to `all`, the thread block's totals in shared memory; for extremes keeps the maximum. All threads of the block must call
 * this. */
template <what WHAT> static __device__ __forceinline__ void join(const found &f, uint32_t lead, uint32_t columns, stk_job_totals &all)
{
	uint32_t phase = threadIdx.x % 3;
#pragma unroll
	for (int p = 0; p < POSITIONS; p++) {
		uint32_t column = (p + lead) % columns;
		if (WHAT == GREATEST || WHAT == LEAST) {
			uint32_t most = ~stk__warp_min(~at_position(f.sum, p, phase));
			if (threadIdx.x % 32 == 0)
				atomicMax(&all.sum[column], (unsigned long long)most);
			continue;
		}
		uint32_t sum = WHAT == SQUARES ? 0 : stk__warp_sum(at_position(f.sum, p, phase));
		uint32_t squares = WHAT == SUMS ? 0 : stk__warp_sum(at_position(f.squares, p, phase));
		if (threadIdx.x % 32 == 0 && WHAT != SQUARES)
			atomicAdd(&all.sum[column], (unsigned long long)sum);
		if (threadIdx.x % 32 == 0 && WHAT != SUMS)
			atomicAdd(&all.squares[column], (unsigned long long)squares);
	}
}

/* Processes the bytes before the first chunk and after the last one. Only the first thread block does this. */
template <what WHAT> static __device__ __forceinline__ void take_edges(const stretch &s, uint32_t columns, stk_job_totals &all)
{
	uint32_t tail = threadIdx.x - CHUNK, at = threadIdx.x < CHUNK ? threadIdx.x : s.lead + s.chunks * CHUNK + tail;
	if (threadIdx.x < CHUNK ? at >= s.lead : tail >= CHUNK || at >= s.n)
		return;
	uint32_t byte = s.src[at], column = at % columns;
	byte = WHAT == LEAST ? 255 - byte : byte;
	if (WHAT == GREATEST || WHAT == LEAST)
		atomicMax(&all.sum[column], (unsigned long long)byte);
	if (WHAT == SUMS || WHAT == SUMS_AND_SQUARES)
		atomicAdd(&all.sum[column], (unsigned long long)byte);
	if (WHAT == SQUARES || WHAT == SUMS_AND_SQUARES)
		atomicAdd(&all.squares[column], (unsigned long long)(byte * byte));
}

/* Computes a column's result from its totals, `sum` and `squares`, and stores it. */
static __device__ __forceinline__ void finish(const stk_job &job, what w, uint32_t column, uint64_t sum, uint64_t squares)
{
	if (job.kind == STK_JOB_normalize) {
		double *stats = (double *)job.work + 2 * column;
		stats[0] = stk__job_mean(&job, column, (double)sum);
		stats[1] = stk__job_factor(
			&job, column, stk__job_spread(STK_PARAMS(stk_job_normalize, &job).groups.count, (double)sum, (double)squares));
		return;
	}
	stk_job_value v;
	v.u = w == SQUARES ? squares : w == LEAST ? 255 - sum : sum;
	if (STK_PARAMS(stk_job_reduce, &job).domain == STK_ARITH_DOUBLE)
		v.f = (double)v.u;
	stk__job_reduce_store(&job, job.dst + (int64_t)column * stk__job_size(job.dst_dtype), v);
}

template <what WHAT> static __device__ __forceinline__ void reduce_columns(const stk_job &job, uint32_t block)
{
	__shared__ stk_job_totals mine;
	stretch s = stretch_of(job);
	const stk_job_groups &g = *stk__job_groups_of(&job);
	if (threadIdx.x < POSITIONS)
		mine.sum[threadIdx.x] = mine.squares[threadIdx.x] = 0;
	__syncthreads();
	found f;
#pragma unroll
	for (int p = 0; p < POSITIONS; p++)
		f.sum[p] = f.squares[p] = 0;
	take_chunks<WHAT>(s, block, f);
	join<WHAT>(f, s.lead, g.groups, mine);
	if (block == 0)
		take_edges<WHAT>(s, g.groups, mine);
	__syncthreads();
	stk_job_totals *all = (stk_job_totals *)job.constants;
	uint32_t column = threadIdx.x;
	if (column < g.groups && (WHAT == GREATEST || WHAT == LEAST))
		atomicMax(&all->sum[column], mine.sum[column]);
	if (column < g.groups && (WHAT == SUMS || WHAT == SUMS_AND_SQUARES))
		atomicAdd(&all->sum[column], mine.sum[column]);
	if (column < g.groups && (WHAT == SQUARES || WHAT == SUMS_AND_SQUARES))
		atomicAdd(&all->squares[column], mine.squares[column]);
	if (!stk__comes_last(&all->arrived, stk__job_column_blocks(&g)) || column >= g.groups)
		return;
	const volatile stk_job_totals *sums = all;
	finish(job, WHAT, column, sums->sum[column], sums->squares[column]);
}

extern "C" __global__ void __launch_bounds__(THREADS) job_byte_columns(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	uint32_t block = blockIdx.x - it.block0[v.launch];
	switch (what_of(it.job)) {
	case SUMS:
		return reduce_columns<SUMS>(it.job, block);
	case SQUARES:
		return reduce_columns<SQUARES>(it.job, block);
	case SUMS_AND_SQUARES:
		return reduce_columns<SUMS_AND_SQUARES>(it.job, block);
	case GREATEST:
		return reduce_columns<GREATEST>(it.job, block);
	default:
		return reduce_columns<LEAST>(it.job, block);
	}
}

/* ---- rows ---- */

template <int N> static __device__ __forceinline__ uint32_t reduce_row(const uint8_t *row, int32_t op)
{
	uint32_t x = __ldg(row), sum = x, squares = x * x, most = x, least = x;
#pragma unroll
	for (int k = 1; k < N; k++) {
		x = __ldg(row + k);
		sum += x;
		squares += x * x;
		most = max(most, x);
		least = min(least, x);
	}
	return op == STK_REDUCE_MIN ? least : op == STK_REDUCE_MAX ? most : op == STK_REDUCE_SUM || op == STK_REDUCE_MEAN ? sum : squares;
}

static __device__ __forceinline__ void store_row(const stk_job &job, uint32_t row, uint32_t x)
{
	stk_job_value v;
	v.u = x;
	if (STK_PARAMS(stk_job_reduce, &job).domain == STK_ARITH_DOUBLE)
		v.f = (double)x;
	stk__job_reduce_store(&job, job.dst + (int64_t)row * stk__job_size(job.dst_dtype), v);
}

/* Reduces rows first .. end - 1, each of N bytes. Sums that are stored as uint64 need no conversion, so they have a loop of their own. */
template <int N> static __device__ __forceinline__ void reduce_rows(const stk_job &job, uint32_t first, uint32_t end)
{
	int32_t op = STK_PARAMS(stk_job_reduce, &job).op;
	bool plain = op == STK_REDUCE_SUM && job.dst_dtype == STK_UINT64;
	if (plain) {
#pragma unroll 4
		for (uint32_t i = first + threadIdx.x; i < end; i += THREADS)
			((uint64_t *)job.dst)[i] = reduce_row<N>(job.src[0] + (int64_t)i * N, STK_REDUCE_SUM);
		return;
	}
	for (uint32_t i = first + threadIdx.x; i < end; i += THREADS)
		store_row(job, i, reduce_row<N>(job.src[0] + (int64_t)i * N, op));
}

extern "C" __global__ void __launch_bounds__(THREADS) job_byte_rows(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	const stk_job_groups &g = STK_PARAMS(stk_job_reduce, &it.job).groups;
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * STK_JOB_ROWS, end = min(first + STK_JOB_ROWS, g.groups);
	if (g.count == 3)
		reduce_rows<3>(it.job, first, end);
	else if (g.count == 2)
		reduce_rows<2>(it.job, first, end);
	else
		reduce_rows<4>(it.job, first, end);
}
