/* SPDX-License-Identifier: Apache-2.0
 * The minimum or maximum of RGB bytes on the GPU, in columns of words (kernel/filter/filter_words.h). */
#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_words.cuh"
#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"

#define THREADS STK_JOB_THREADS
/* rows of outputs per iteration of the unrolled loop; also the length of the ring of rows, so that each entry stays in the same registers */
#define TURN 8

/* Four bytes as 16-bit numbers: bytes 0 and 2 are in `even`, bytes 1 and 3 in `odd`. */
struct pairs {
	uint32_t even, odd;
};

static __device__ __forceinline__ pairs split(uint32_t four)
{
	return {four & 0x00ff00ff, __byte_perm(four, 0, 0x4341)};
}

static __device__ __forceinline__ uint32_t join(const pairs &p)
{
	return __byte_perm(p.even, p.odd, 0x6240);
}

template <int REDUCTION> static __device__ __forceinline__ void take(pairs &extreme, const pairs &x)
{
	if (REDUCTION == STK_FILTER_LEAST)
		extreme = {stk__min_shorts(extreme.even, x.even), stk__min_shorts(extreme.odd, x.odd)};
	else
		extreme = {stk__max_shorts(extreme.even, x.even), stk__max_shorts(extreme.odd, x.odd)};
}

/* Returns the minimum or maximum of the pixels in one row of the window, for each of four adjacent bytes. */
template <int SIZE, int REDUCTION> static __device__ __forceinline__ pairs extremes_of_row(const span<SIZE> &s)
{
	constexpr int WORDS = window<SIZE>::WORDS;
	uint32_t word[WORDS];
	stk__span_align(s, word);
	pairs extreme = split(word[0]);
#pragma unroll
	for (int m = 3; m < 3 * SIZE; m += 3)
		take<REDUCTION>(extreme, split(__funnelshift_r(word[m / 4], word[min(m / 4 + 1, WORDS - 1)], 8 * (m % 4))));
	return extreme;
}

/* Returns the minimum or maximum over a window with SIZE rows. The values of N rows are in the ring buffer `row`; the window begins with row number `begin`. */
template <int SIZE, int REDUCTION, int N> static __device__ __forceinline__ uint32_t extremes_of_rows(const pairs (&row)[N], int begin)
{
	pairs extreme = row[begin % N];
#pragma unroll
	for (int k = 1; k < SIZE; k++)
		take<REDUCTION>(extreme, row[(begin + k) % N]);
	return join(extreme);
}

/* Returns the address of row y. pitch: size of a row in bytes. A product of unsigned numbers takes a third of the instructions of a signed product. */
template <typename T> static __device__ __forceinline__ T *at_row(T *from, uint32_t y, uint32_t pitch)
{
	return from + (uint64_t)y * pitch;
}

static __device__ __forceinline__ void store(uint8_t *dst, const column &c, int32_t y, uint32_t four)
{
	*(uint32_t *)(void *)at_row(dst, (uint32_t)y, (uint32_t)c.row_out) = four;
}

/* Makes a column whose windows lie within the rows of the input. AHEAD rows are being loaded while one is used. Most iterations only load rows inside of the
 * image and store all their outputs, so they need no checks per row. */
template <int SIZE, int REDUCTION, int AHEAD> static __device__ __forceinline__ void make_inside(const stk_filter &f, const column &c)
{
	constexpr int MORE = SIZE - 1;
	/* All rows begin at the same byte of a word: a row of outputs is a whole number of words, and a row of the input has the same length. */
	const uint32_t before = (uint32_t)(uintptr_t)(c.src + c.left) & 3, pitch = (uint32_t)c.row_in;
	const uint8_t *words = stk__forget(c.src + c.left - before);
	uint8_t *dst = stk__forget(c.dst);
	const int32_t height = f.in[1];
	auto load = [&](const uint8_t *from) { return stk__span_load<window<SIZE>::SPAN>((const uint32_t *)(const void *)from, before); };
	auto load_row = [&](int32_t k) { return load(at_row(words, (uint32_t)row_of(f, height, c.top + k), pitch)); };
	span<SIZE> ahead[AHEAD];
	pairs row[TURN]; /* row k of the input is in row[k % TURN] */
	auto use = [&](int k) { row[k % TURN] = extremes_of_row<SIZE, REDUCTION>(ahead[k % AHEAD]); };
#pragma unroll
	for (int k = 0; k < AHEAD; k++)
		ahead[k] = load_row(min(k, c.rows + MORE - 1));
#pragma unroll
	for (int k = 0; k < MORE; k++) {
		use(k);
		ahead[k % AHEAD] = load_row(min(k + AHEAD, c.rows + MORE - 1));
	}
#pragma unroll 1
	for (int32_t y = 0; y < c.rows; y += TURN) {
		const int32_t next = c.top + y + MORE + AHEAD;
		if (y + TURN + AHEAD <= c.rows && next >= 0 && next + TURN <= height) {
			const uint8_t *from = at_row(words, (uint32_t)next, pitch);
			uint8_t *to = at_row(dst, (uint32_t)y, (uint32_t)c.row_out);
#pragma unroll
			for (int i = 0; i < TURN; i++, from += pitch, to += c.row_out) {
				use(i + MORE);
				ahead[(i + MORE) % AHEAD] = load(from);
				*(uint32_t *)(void *)to = extremes_of_rows<SIZE, REDUCTION>(row, i);
			}
			continue;
		}
#pragma unroll
		for (int i = 0; i < TURN; i++) {
			use(i + MORE);
			if (y + i + AHEAD < c.rows)
				ahead[(i + MORE) % AHEAD] = load_row(y + i + MORE + AHEAD);
			if (y + i < c.rows)
				store(dst, c, y + i, extremes_of_rows<SIZE, REDUCTION>(row, i));
		}
	}
}

/* Makes any column, also one whose windows exceed the rows of the input. Loads bytes one by one from computed positions. */
template <int SIZE, int REDUCTION> static __device__ __forceinline__ void make_end(const stk_filter &f, const column &c)
{
	int32_t at[window<SIZE>::SPAN];
	pairs row[SIZE];
	find_places<SIZE>(f, c, at);
#pragma unroll 1
	for (int32_t k = 0; k < c.rows + SIZE - 1; k++) {
		const uint8_t *from = at_row(c.src, (uint32_t)row_of(f, f.in[1], c.top + k), (uint32_t)c.row_in);
		span<SIZE> s = {};
#pragma unroll
		for (int m = 0; m < window<SIZE>::SPAN; m++)
			s.word[m / 4] |= (uint32_t)__ldg(from + at[m]) << 8 * (m % 4);
#pragma unroll
		for (int r = 1; r < SIZE; r++)
			row[r - 1] = row[r];
		row[SIZE - 1] = extremes_of_row<SIZE, REDUCTION>(s);
		if (k >= SIZE - 1)
			store(c.dst, c, k - (SIZE - 1), extremes_of_rows<SIZE, REDUCTION>(row, 0));
	}
}

/* Makes a thread's column, if `exists` is set. All threads of a warp must call this. They all take the same branch, since a warp would execute both
 * branches one after the other. */
template <int SIZE, int REDUCTION> static __device__ __forceinline__ void make_column(const stk_filter &f, const column &c, bool exists)
{
	bool inside = __all_sync(~0u, !exists || rows_hold<SIZE>(c));
	if (!exists)
		return;
	if (inside)
		make_inside<SIZE, REDUCTION, SIZE == 3 ? TURN : TURN / 2>(f, c);
	else
		make_end<SIZE, REDUCTION>(f, c);
}

template <int SIZE> static __device__ __forceinline__ void make_extremes(const stk_filter &f, const column &c, bool exists)
{
	if (f.reduction == STK_FILTER_LEAST)
		make_column<SIZE, STK_FILTER_LEAST>(f, c, exists);
	else
		make_column<SIZE, STK_FILTER_LARGEST>(f, c, exists);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_filter_word_extremes(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	const stk_filter &f = STK_PARAMS(stk_filter, &it.job);
	const int32_t size = f.window[0][1].size;
	bool exists;
	column c = find_column(f, stk__job_filter_data(&it.job), (blockIdx.x - it.block0[v.launch]) * THREADS + threadIdx.x, exists);
	if (size == 3)
		make_extremes<3>(f, c, exists);
	else if (size == 5)
		make_extremes<5>(f, c, exists);
	else
		make_extremes<7>(f, c, exists);
}
