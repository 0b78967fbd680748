/* SPDX-License-Identifier: Apache-2.0
 * Filters of images on the GPU, tile by tile (kernel/filter/filter_tile.h). */
#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_tile.cuh"
#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"

#define RUN STK_FILTER_TILE_RUN
#define DEEP STK_FILTER_TILE_DEEP
#define TALL 4 /* rows that a thread makes at a time with a dense window of 3 x 3 */
#define VALUES STK_FILTER_TILE_VALUES
#define WARPS STK_FILTER_TILE_WARPS
#define THREADS STK_FILTER_TILE_THREADS

/* The description of a tile, which is the same for all threads of its thread block. */
struct tile_job {
	const stk_filter &f;
	stk_filter_data d;
	stk_filter_tiles t;
	filter_tile tile;
	int32_t begin, end; /* the tile reads values begin to end - 1 of each input row */
	int32_t rows;       /* number of input rows that the tile reads */
	float fill;
	float *weights, *memory; /* in shared memory: the windows' weights, and memory for rows and results */
};

static __device__ __forceinline__ tile_job find_job(const stk_job_gpu_view &v, float *shared)
{
	const stk_job_gpu_item &it = share_item(v);
	const stk_filter &f = STK_PARAMS(stk_filter, &it.job);
	stk_filter_tiles t = stk__filter_tiles(&f);
	filter_tile tile = find_tile(f, t, blockIdx.x - it.block0[v.launch]);
	stk_filter_data d = stk__job_filter_data(&it.job);
	int32_t begin = (tile.x + t.x.first) * f.channels;
	return {f, d, t, tile, begin, begin + tile.values + (t.x.size - 1) * f.channels, tile.rows + t.y.size - 1,
		f.fill_at ? load_any((const uint8_t *)f.fill_at, 0, d.src_dtype) : f.fill, shared, shared + STK_FILTER_TILE_WEIGHTS};
}

static __device__ __forceinline__ float *load_row_of(const tile_job &j, int32_t row, float *line)
{
	return load_row(j.f, j.d, j.tile.src, j.tile.y + j.t.y.first + row, j.begin, j.end, j.fill, line);
}

/* A lane's outputs in a row: RUN values of one channel, the first of which is value `at` of the row. mine: false if the lane has no outputs, as happens if the
 * number of channels does not divide 32. */
struct lane_run {
	int32_t at;
	bool mine;
};

static __device__ __forceinline__ lane_run find_run(int32_t channels)
{
	int32_t lane = (int32_t)(threadIdx.x % 32), run = lane / channels;
	return {run * RUN * channels + lane - run * channels, run < 32 / channels};
}

static __device__ __forceinline__ void clear(float (&sum)[RUN])
{
#pragma unroll
	for (int i = 0; i < RUN; i++)
		sum[i] = FILTER_NOTHING;
}

/* ---- separable windows ---- */

/* Copies the windows' weights: for each term those along the width, then those along the height. */
static __device__ __forceinline__ void copy_weights(const tile_job &j)
{
	float *to = j.weights;
#pragma unroll 1
	for (int32_t t = 0; t < j.f.n_terms; t++)
		for (int axis = 2; axis > 0; axis--) {
			const stk_filter_window &w = j.f.window[t][axis];
			for (int32_t k = (int32_t)threadIdx.x; k < w.size; k += THREADS)
				to[k] = j.d.weights[w.weights + k];
			to += w.size;
		}
	__syncthreads();
}

/* Filters the rows of the input along the width, for each term. Each warp takes whole rows. */
template <int REDUCTION> static __device__ __forceinline__ void run_rows(const tile_job &j, float *results)
{
	int32_t warp = (int32_t)(threadIdx.x / 32), channels = j.f.channels;
	lane_run run = find_run(channels);
#pragma unroll 1
	for (int32_t row = warp; row < j.rows; row += WARPS) {
		const float *from = load_row_of(j, row, j.memory + warp * j.t.pitch) + run.at, *weights = j.weights;
		__syncwarp();
#pragma unroll 1
		for (int32_t t = 0; t < j.f.n_terms && run.mine; t++) {
			const stk_filter_window &w = j.f.window[t][2];
			float sum[RUN], *to = results + (t * (j.t.height + j.t.y.size - 1) + row) * VALUES + run.at;
			clear(sum);
			slide<REDUCTION>(sum, from + (w.first - j.t.x.first) * channels, channels, w.size, weights);
#pragma unroll
			for (int i = 0; i < RUN; i++)
				to[i * channels] = sum[i];
			weights += w.size + j.f.window[t][1].size;
		}
		__syncwarp();
	}
}

/* Filters the results of the rows along the height. Two threads share a column, and each makes every other group of DEEP outputs. */
template <int REDUCTION> static __device__ __forceinline__ void run_columns(const tile_job &j, const float *results)
{
	int32_t half = (int32_t)threadIdx.x / VALUES, column = (int32_t)threadIdx.x - half * VALUES;
	int64_t row = (int64_t)j.f.out[2] * j.f.channels;
#pragma unroll 1
	for (int32_t y = DEEP * half; y < j.tile.rows && column < j.tile.values; y += 2 * DEEP) {
		const float *weights = j.weights;
		float sum[DEEP];
#pragma unroll
		for (int i = 0; i < DEEP; i++)
			sum[i] = FILTER_NOTHING;
#pragma unroll 1
		for (int32_t t = 0; t < j.f.n_terms; t++) {
			const stk_filter_window &w = j.f.window[t][1];
			const float *from = results + (t * (j.t.height + j.t.y.size - 1) + y + w.first - j.t.y.first) * VALUES + column;
			weights += j.f.window[t][2].size;
			slide<REDUCTION>(sum, from, VALUES, w.size, weights);
			weights += w.size;
		}
		int64_t to = j.tile.dst + y * row + column;
#pragma unroll
		for (int i = 0; i < DEEP; i++, to += row)
			if (y + i < j.tile.rows)
				store_value(j.d, to, sum[i]);
	}
}

template <int REDUCTION> static __device__ __forceinline__ void run_separable(const tile_job &j)
{
	float *results = j.memory + WARPS * j.t.pitch;
	run_rows<REDUCTION>(j, results);
	__syncthreads();
	run_columns<REDUCTION>(j, results);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_filter_sums(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(float, shared);
	tile_job j = find_job(v, shared);
	copy_weights(j);
	run_separable<STK_FILTER_SUM>(j);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_filter_extremes(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(float, shared);
	tile_job j = find_job(v, shared);
	if (j.f.reduction == STK_FILTER_LEAST)
		run_separable<STK_FILTER_LEAST>(j);
	else
		run_separable<STK_FILTER_LARGEST>(j);
}

/* ---- dense windows ---- */

/* Rows of the input in shared memory, tile_job.t.pitch floats apart. skew[k]: number of unused floats before the first value of row k. */
struct tile_rows {
	const float *values;
	const int32_t *skew;
	float *results; /* a row of results for this warp */
};

static __device__ __forceinline__ tile_rows load_rows(const tile_job &j)
{
	int32_t warp = (int32_t)(threadIdx.x / 32);
	float *values = j.memory, *results = values + (j.t.height + j.t.y.size - 1) * j.t.pitch;
	int32_t *skew = (int32_t *)(void *)(results + WARPS * VALUES);
#pragma unroll 1
	for (int32_t row = warp; row < j.rows; row += WARPS) {
		float *line = values + row * j.t.pitch, *first = load_row_of(j, row, line);
		if (threadIdx.x % 32 == 0)
			skew[row] = (int32_t)(first - line);
	}
	__syncthreads();
	return {values, skew, results + warp * VALUES};
}

static __device__ __forceinline__ const float *row_of(const tile_job &j, const tile_rows &r, int32_t row)
{
	return r.values + row * j.t.pitch + r.skew[row];
}

/* Computes the lane's outputs in row y of the tile, for a dense window of any size. */
static __device__ __forceinline__ void sum_row(const tile_job &j, const tile_rows &r, const lane_run &run, int32_t y, float (&sum)[RUN])
{
	clear(sum);
#pragma unroll 1
	for (int32_t k = 0; k < j.t.y.size && run.mine; k++)
		slide<STK_FILTER_SUM>(sum, row_of(j, r, y + k) + run.at, j.f.channels, j.t.x.size, j.weights + k * j.t.x.size);
}

/* Computes the lane's outputs in TALL rows from y on, with a 3 x 3 window. Each input value is read once for all outputs that use it. */
static __device__ __forceinline__ void sum_rows3(
	const tile_job &j, const tile_rows &r, const lane_run &run, const float (&weight)[9], int32_t y, float (&sum)[TALL][RUN])
{
	const int32_t channels = j.f.channels;
#pragma unroll
	for (int t = 0; t < TALL; t++)
		clear(sum[t]);
#pragma unroll
	for (int k = 0; k < TALL + 2; k++) {
		const float *from = row_of(j, r, min(y + k, j.rows - 1)) + run.at;
		float x[RUN + 2];
#pragma unroll
		for (int m = 0; m < RUN + 2; m++, from += channels)
			x[m] = *from;
#pragma unroll
		for (int t = max(k - 2, 0); t <= min(k, TALL - 1); t++)
#pragma unroll
			for (int i = 0; i < RUN; i++)
#pragma unroll
				for (int c = 0; c < 3; c++)
					sum[t][i] = combine<STK_FILTER_SUM>(sum[t][i], x[i + c], weight[3 * (k - t) + c], false);
	}
}

static __device__ __forceinline__ void run_dense3(const tile_job &j, const tile_rows &r, const lane_run &run)
{
	const int64_t row = (int64_t)j.f.out[2] * j.f.channels;
	float weight[9], sum[TALL][RUN];
#pragma unroll
	for (int k = 0; k < 9; k++)
		weight[k] = j.weights[k];
#pragma unroll 1
	for (int32_t y = TALL * (int32_t)(threadIdx.x / 32); y < j.tile.rows; y += TALL * WARPS) {
		if (run.mine)
			sum_rows3(j, r, run, weight, y, sum);
#pragma unroll
		for (int t = 0; t < TALL; t++)
			if (y + t < j.tile.rows)
				store_row(
					j.d, j.tile.dst + (y + t) * row, sum[t], run.mine, run.at, j.f.channels, r.results, j.tile.values);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_filter_dense(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(float, shared);
	tile_job j = find_job(v, shared);
	const int32_t places = j.t.y.size * j.t.x.size, channels = j.f.channels;
	for (int32_t k = (int32_t)threadIdx.x; k < places; k += THREADS)
		j.weights[k] = j.d.weights[k];
	tile_rows r = load_rows(j);
	lane_run run = find_run(channels);
	if (j.t.y.size == 3 && j.t.x.size == 3) {
		run_dense3(j, r, run);
		return;
	}
#pragma unroll 1
	for (int32_t y = (int32_t)(threadIdx.x / 32); y < j.tile.rows; y += WARPS) {
		float sum[RUN];
		sum_row(j, r, run, y, sum);
		store_row(j.d, j.tile.dst + (int64_t)y * j.f.out[2] * channels, sum, run.mine, run.at, channels, r.results, j.tile.values);
	}
}

/* ---- medians ---- */

static __device__ __forceinline__ void order(uint32_t &a, uint32_t &b)
{
	uint32_t less = min(a, b);
	b = max(a, b);
	a = less;
}

static __device__ __forceinline__ uint32_t middle(uint32_t a, uint32_t b, uint32_t c)
{
	return max(min(a, b), min(max(a, b), c));
}

/* Computes medians of 3 x 3 ranks for DEEP outputs in a column. The median is itself the median of three values: the maximum of the rows' minima, the median
 * of their medians, and the minimum of their maxima (A. Paeth, "Median finding on a 3x3 grid", 1990). Each row is sorted once for the three outputs that
 * read it. */
static __device__ __forceinline__ void median3(const tile_job &j, const tile_rows &r, int32_t y, int32_t column, float (&out)[DEEP])
{
	uint32_t least[3] = {}, mid[3] = {}, largest[3] = {};
#pragma unroll
	for (int m = 0; m < DEEP + 2; m++) {
		const float *from = row_of(j, r, min(y + m, j.rows - 1)) + column;
		uint32_t a = stk__filter_rank(from[0]), b = stk__filter_rank(from[j.f.channels]),
			 c = stk__filter_rank(from[2 * j.f.channels]);
		order(a, b);
		order(b, c);
		order(a, b);
		least[m % 3] = a;
		mid[m % 3] = b;
		largest[m % 3] = c;
		if (m >= 2)
			out[m - 2] = stk__filter_of_rank(middle(max(max(least[0], least[1]), least[2]), middle(mid[0], mid[1], mid[2]),
				min(min(largest[0], largest[1]), largest[2])));
	}
}

/* Exchanges N ranks so that the first is the minimum and the last is the maximum. */
template <int N> static __device__ __forceinline__ void order_ends(uint32_t *a)
{
#pragma unroll
	for (int i = 0; i < N / 2; i++)
		order(a[i], a[N - 1 - i]);
#pragma unroll
	for (int i = 1; i < (N + 1) / 2; i++) {
		order(a[0], a[i]);
		order(a[N - 1 - i], a[N - 1]);
	}
}

/* Returns the median of a set of ranks, of which N are in `a` and next() returns the others. The minimum and maximum of these N cannot be the median of all:
 * drops both, adds the next rank, and repeats this until three ranks are left. */
template <int N, typename F> static __device__ __forceinline__ uint32_t select_middle(uint32_t *a, F next)
{
	order_ends<N>(a);
	if constexpr (N == 3)
		return a[1];
	else {
		a[0] = next(N);
		return select_middle<N - 1>(a, next);
	}
}

static __device__ __forceinline__ float median5(const tile_job &j, const tile_rows &r, int32_t y, int32_t column)
{
	auto load = [&](int k) { return stk__filter_rank(row_of(j, r, y + k / 5)[column + k % 5 * j.f.channels]); };
	uint32_t a[14];
#pragma unroll
	for (int k = 0; k < 14; k++)
		a[k] = load(k);
	return stk__filter_of_rank(select_middle<14>(a, [&](int n) { return load(28 - n); }));
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_filter_median(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(float, shared);
	tile_job j = find_job(v, shared);
	tile_rows r = load_rows(j);
	int32_t half = (int32_t)threadIdx.x / VALUES, column = (int32_t)threadIdx.x - half * VALUES;
	int64_t row = (int64_t)j.f.out[2] * j.f.channels;
	if (column >= j.tile.values)
		return;
#pragma unroll 1
	for (int32_t y = DEEP * half; y < j.tile.rows; y += 2 * DEEP) {
		float out[DEEP];
		if (j.t.x.size == 3)
			median3(j, r, y, column, out);
		else
#pragma unroll 1
			for (int i = 0; i < DEEP; i++)
				if (y + i < j.tile.rows)
					store_value(j.d, j.tile.dst + (y + i) * row + column, median5(j, r, y + i, column));
#pragma unroll
		for (int i = 0; i < DEEP; i++)
			if (j.t.x.size == 3 && y + i < j.tile.rows)
				store_value(j.d, j.tile.dst + (y + i) * row + column, out[i]);
	}
}
