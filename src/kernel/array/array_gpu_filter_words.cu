/* SPDX-License-Identifier: Apache-2.0
 * Dense filters of RGB bytes on the GPU, in columns of words (kernel/filter/filter_words.h). */
#include "kernel/array/array_element.h"
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/common/pixels.cuh"
#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_words.h"

#define THREADS STK_ARRAY_GPU_THREADS
#define ROWS STK_FILTER_WORDS_ROWS
#define PITCH 8 /* of a window's rows of weights, in shared memory */

/* A thread's column of outputs. The window of its first one begins at row `top` of the input, and at value `left` of a row. */
struct column {
	const uint8_t *src;                       /* of the image */
	uint8_t *dst;                             /* of the first outputs */
	int32_t left, top, rows, row_in, row_out; /* rows: of outputs; row_in and row_out: values of a row */
};

/* Values that lie below each other's windows: four outputs of a row read SPAN values of each row of the input. */
template <int SIZE> struct window {
	static constexpr int SPAN = 4 + 3 * (SIZE - 1), WORDS = (SPAN + 3) / 4;
};

/* A row of the input: SPAN bytes, of which the first is byte `shift` / 8 of the words. */
template <int SIZE> struct span {
	uint32_t word[window<SIZE>::WORDS + 1], shift;
};

static __device__ __noinline__ int32_t row_outside(const stk_filter &f, int32_t y)
{
	return stk__border_index(y, f.in[1], f.border);
}

static __device__ __forceinline__ int32_t row_of(const stk_filter &f, int32_t y)
{
	return (uint32_t)y < (uint32_t)f.in[1] ? y : row_outside(f, y);
}

/* Of a row that is there, and holds the whole span. */
template <int SIZE> static __device__ __forceinline__ span<SIZE> load_span(const stk_filter &f, const column &c, int32_t y)
{
	uintptr_t from = (uintptr_t)(c.src + (int64_t)row_of(f, y) * c.row_in + c.left);
	const uint32_t *words = (const uint32_t *)(from & ~(uintptr_t)3);
	uint32_t before = (uint32_t)from & 3;
	span<SIZE> s;
	constexpr int WORDS = window<SIZE>::WORDS, SPAN = window<SIZE>::SPAN;
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		s.word[i] = __ldg(words + i);
	s.word[WORDS] = before + SPAN > 4 * WORDS ? __ldg(words + WORDS) : 0;
	s.shift = 8 * before;
	return s;
}

template <int SIZE> static __device__ __forceinline__ void values_of(const span<SIZE> &s, float (&x)[window<SIZE>::SPAN])
{
	uint32_t word[window<SIZE>::WORDS];
#pragma unroll
	for (int i = 0; i < window<SIZE>::WORDS; i++)
		word[i] = __funnelshift_r(s.word[i], s.word[i + 1], s.shift);
#pragma unroll
	for (int m = 0; m < window<SIZE>::SPAN; m++)
		x[m] = (float)(word[m / 4] >> 8 * (m % 4) & 255);
}

/* Where in a row value v lies, counted from the row's first one, beyond which there is border; negative: the fill is read. */
static __device__ __noinline__ int32_t place_of(const stk_filter &f, int32_t v)
{
	int32_t p = v >= 0 ? v / 3 : -((2 - v) / 3), x = stk__border_index(p, f.in[2], f.border);
	return x < 0 ? -1 : 3 * x + v - 3 * p;
}

/* A row's values by their places, in any row. */
template <int SIZE>
static __device__ __forceinline__ void load_values(const stk_filter &f, const column &c, const int32_t (&at)[window<SIZE>::SPAN], int32_t y,
	float fill, float (&x)[window<SIZE>::SPAN])
{
	y = row_of(f, y);
	const uint8_t *row = c.src + (int64_t)max(y, 0) * c.row_in;
#pragma unroll
	for (int m = 0; m < window<SIZE>::SPAN; m++)
		x[m] = (at[m] | y) < 0 ? fill : (float)__ldg(row + at[m]);
}

/* The sums of SIZE rows of four outputs, from the one whose window ends with the row of the input to the one whose window begins with it. */
template <int SIZE> struct sums {
	float of[SIZE][4];
};

/* Sums begin with -0: adding to it changes nothing, not even the sign of 0. */
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

/* Row k of the input is in the sums: stores the row of outputs that ends with it, if there is one, and makes room for the next. */
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

/* exists: the column has outputs. For all threads of a warp, which read words where none of them reaches beyond a row, and values by their places otherwise:
 * at an edge both ways after each other would take twice as long. */
template <int SIZE>
static __device__ __forceinline__ void make_column(const stk_filter &f, const column &c, const float *weights, bool exists)
{
	const int32_t rows = c.rows + SIZE - 1;
	bool across = c.left >= 0 && c.left + window<SIZE>::SPAN <= c.row_in;
	bool down = f.border != STK_BORDER_FILL || (c.top >= 0 && c.top + rows <= f.in[1]);
	bool words = __all_sync(~0u, !exists || (across && down));
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
			next = load_span<SIZE>(f, c, c.top + min(k + 1, rows - 1)); /* ahead: there is no waiting for it in the next turn */
			add_row<SIZE>(s, x, weights);
			end_row<SIZE>(s, c, k);
		}
		return;
	}
	int32_t at[window<SIZE>::SPAN];
#pragma unroll
	for (int m = 0; m < window<SIZE>::SPAN; m++)
		at[m] = place_of(f, c.left + m);
	const float fill = stk__filter_fill(&f, STK_UINT8);
#pragma unroll 1
	for (int32_t k = 0; k < rows; k++) {
		load_values<SIZE>(f, c, at, c.top + k, fill, x);
		add_row<SIZE>(s, x, weights);
		end_row<SIZE>(s, c, k);
	}
}

/* A thread's strip, among those of all images, and its word of a row. */
struct place {
	uint32_t strip;
	int32_t word;
};

/* Words at the ends of rows, whose windows reach beyond them, come first, those of all strips: in their order two warps of each row would have some. */
static __device__ __forceinline__ place find_place(const stk_filter &f, uint32_t i)
{
	const stk_filter_window &w = f.window[0][2];
	const int32_t across = (int32_t)stk__filter_words_across(&f), span = 3 * w.size + 1;
	const int32_t begin = min(max((3 - 3 * w.first) / 4, 0), across), room = 3 * (f.in[2] - w.first) - span;
	const int32_t inside = max(min(room >= 0 ? room / 4 + 1 : 0, across) - begin, 0);
	const uint32_t beyond = (uint32_t)(across - inside), first = beyond * stk__filter_words_strips(&f) * f.outer;
	const bool ends = i < first || inside == 0; /* there is none to come later */
	const uint32_t of_strip = max(ends ? beyond : (uint32_t)inside, 1u), from = ends ? 0 : first, strip = (i - from) / of_strip;
	const int32_t word = (int32_t)(i - from - strip * of_strip);
	return {strip, ends ? word + (word >= begin ? inside : 0) : begin + word};
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) array_filter_words(const __grid_constant__ stk_array_gpu_view v)
{
	__shared__ __align__(16) float weights[STK_FILTER_WORDS_WEIGHTS];
	const stk_array_gpu_item &it = share_item(v);
	const stk_filter &f = it.job.filter;
	const stk_filter_window *w = f.window[0];
	const stk_filter_data d = stk__array_filter_data(&it.job);
	const int32_t size = w[1].size;
	if (threadIdx.x < size * size)
		weights[PITCH * (threadIdx.x / size) + threadIdx.x % size] = d.weights[threadIdx.x];
	__syncthreads();
	const place at = find_place(f, (blockIdx.x - it.block0[v.launch]) * THREADS + threadIdx.x);
	const uint32_t strips = stk__filter_words_strips(&f), outer = at.strip / strips;
	const bool exists = outer < f.outer;
	const int32_t y = (int32_t)(at.strip - outer * strips) * ROWS, left = 4 * at.word;
	column c = {d.src + outer * stk__filter_volume(&f, f.in), d.dst + outer * stk__filter_volume(&f, f.out), left + 3 * w[2].first,
		y + w[1].first, min(ROWS, f.out[1] - y), 3 * f.in[2], 3 * f.out[2]};
	c.dst += (int64_t)y * c.row_out + left;
	if (size == 3)
		make_column<3>(f, c, weights, exists);
	else if (size == 5)
		make_column<5>(f, c, weights, exists);
	else
		make_column<7>(f, c, weights, exists);
}
