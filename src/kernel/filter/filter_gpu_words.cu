/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums over dense windows of RGB bytes on the GPU, in columns of words (kernel/filter/filter_words.h). */
#include "kernel/common/pixels.cuh"
#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_words.cuh"
#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"

#define THREADS STK_JOB_THREADS
#define PITCH 8 /* number of weights per row of a window in shared memory, including padding */

template <int SIZE> static __device__ __forceinline__ void values_of(const span<SIZE> &s, float (&x)[window<SIZE>::SPAN])
{
	uint32_t word[window<SIZE>::WORDS];
	stk__span_align(s, word);
#pragma unroll
	for (int m = 0; m < window<SIZE>::SPAN; m++)
		x[m] = (float)(word[m / 4] >> 8 * (m % 4) & 255);
}

/* Returns the column's values of the input row that is read at y. This row must exist and contain all of these values. */
template <int SIZE> static __device__ __forceinline__ span<SIZE> load_span(const stk_filter &f, const column &c, int32_t y)
{
	return stk__span_of<window<SIZE>::SPAN>(c.src + (int64_t)row_of(f, f.in[1], y) * c.row_in + c.left);
}

/* Sets x to values of row y, read one by one at the positions `at` (negative: the fill value). The row may be outside of the image. */
template <int SIZE>
static __device__ __forceinline__ void load_values(const stk_filter &f, const column &c, const int32_t (&at)[window<SIZE>::SPAN], int32_t y,
	float fill, float (&x)[window<SIZE>::SPAN])
{
	y = row_of(f, f.in[1], y);
	const uint8_t *row = c.src + (int64_t)max(y, 0) * c.row_in;
#pragma unroll
	for (int m = 0; m < window<SIZE>::SPAN; m++)
		x[m] = (at[m] | y) < 0 ? fill : (float)__ldg(row + at[m]);
}

/* The sums of four outputs in each of the SIZE rows of outputs whose windows contain the current input row. The first is the row of outputs whose windows end
 * with the input row. */
template <int SIZE> struct sums {
	float of[SIZE][4];
};

/* Sets sums to their initial value, -0: adding a number to it gives exactly that number, even if that is a 0 of either sign. */
static __device__ __forceinline__ void clear(float (&sum)[4])
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		sum[i] = -0.0f;
}

template <int SIZE>
static __device__ __forceinline__ void add_row(sums<SIZE> &s, const float (&x)[window<SIZE>::SPAN], const float *weights)
{
#pragma unroll
	for (int k = 0; k < SIZE; k++) {
		float weight[PITCH];
		*(float4 *)(void *)weight = *(const float4 *)(const void *)(weights + PITCH * (SIZE - 1 - k));
		if (SIZE > 4)
			*(float4 *)(void *)(weight + 4) = *(const float4 *)(const void *)(weights + PITCH * (SIZE - 1 - k) + 4);
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int m = 0; m < SIZE; m++)
				s.of[k][i] = s.of[k][i] + weight[m] * x[i + 3 * m];
	}
}

/* Stores the row of outputs whose windows end with row k of the input, if there is one. Row k must have been added to the sums. Then moves each row of sums to
 * the index before its own, and clears the last one for the next row of outputs. */
template <int SIZE> static __device__ __forceinline__ void end_row(sums<SIZE> &s, const column &c, int32_t k)
{
	if (k >= SIZE - 1)
		*(uint32_t *)(void *)(c.dst + (int64_t)(k - (SIZE - 1)) * c.row_out) =
			stk__to_bytes(s.of[0][0], s.of[0][1], s.of[0][2], s.of[0][3]);
#pragma unroll
	for (int r = 1; r < SIZE; r++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			s.of[r - 1][i] = s.of[r][i];
	clear(s.of[SIZE - 1]);
}

/* Makes a thread's column, if `exists` is set. All threads of a warp must call this. They all read words, unless a window of one of the warp's columns exceeds
 * the rows of the input or reads the fill: then all of them read values from computed positions. (If only some did, the warp would execute both branches one
 * after the other.) */
template <int SIZE>
static __device__ __forceinline__ void make_column(const stk_filter &f, const column &c, const float *weights, bool exists)
{
	const int32_t rows = c.rows + SIZE - 1;
	bool down = f.border != STK_BORDER_FILL || (c.top >= 0 && c.top + rows <= f.in[1]);
	bool words = __all_sync(~0u, !exists || (rows_hold<SIZE>(c) && down));
	if (!exists)
		return;
	float x[window<SIZE>::SPAN];
	sums<SIZE> s;
#pragma unroll
	for (int r = 0; r < SIZE; r++)
		clear(s.of[r]);
	if (words) {
		span<SIZE> next = load_span<SIZE>(f, c, c.top);
#pragma unroll 1
		for (int32_t k = 0; k < rows; k++) {
			values_of<SIZE>(next, x);
			/* loaded one iteration ahead, so that the next iteration does not wait for it */
			next = load_span<SIZE>(f, c, c.top + min(k + 1, rows - 1));
			add_row<SIZE>(s, x, weights);
			end_row<SIZE>(s, c, k);
		}
		return;
	}
	int32_t at[window<SIZE>::SPAN];
	find_places<SIZE>(f, c, at);
	const float fill = stk__filter_fill(&f, STK_UINT8);
#pragma unroll 1
	for (int32_t k = 0; k < rows; k++) {
		load_values<SIZE>(f, c, at, c.top + k, fill, x);
		add_row<SIZE>(s, x, weights);
		end_row<SIZE>(s, c, k);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_filter_words(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ __align__(16) float weights[STK_FILTER_WORDS_WEIGHTS];
	const stk_job_gpu_item &it = share_item(v);
	const stk_filter &f = STK_PARAMS(stk_filter, &it.job);
	const stk_filter_window *w = f.window[0];
	const stk_filter_data d = stk__job_filter_data(&it.job);
	const int32_t size = w[1].size;
	if (threadIdx.x < size * size)
		weights[PITCH * (threadIdx.x / size) + threadIdx.x % size] = d.weights[threadIdx.x];
	__syncthreads();
	bool exists;
	column c = find_column(f, d, (blockIdx.x - it.block0[v.launch]) * THREADS + threadIdx.x, exists);
	if (size == 3)
		make_column<3>(f, c, weights, exists);
	else if (size == 5)
		make_column<5>(f, c, weights, exists);
	else
		make_column<7>(f, c, weights, exists);
}
