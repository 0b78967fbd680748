/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h): the filter taps of all passes, and resizes with weights of interleaved uint8 and float32 images with at most 4 channels.
 * The results have the same bits as those of filter.c, resample.c and rows.c. */
#include "kernel/pass/pass_gpu.cuh"
#include "kernel/pass/pass_gpu_steps.cuh"
#include "kernel/pass/pass_gpu_sums.cuh"

#define ROWS STK_PASS_GPU_ROWS
#define ROW_THREADS (THREADS / (ROWS / TOGETHER)) /* number of threads that make values of the same rows */

/* ---- taps ---- */

/* Quantises n weights, `stride` apart, in place, like stk__filter_quantize_narrow and _wide. For the kind NARROW they become integers stored as floats
 * (struct narrow); for WIDE the floats' memory holds int32 afterwards. */
static __device__ void quantize(float *weights, ptrdiff_t stride, int32_t n, bool narrow)
{
	int32_t largest = 0, most = 0, rest = narrow ? 65536 : 1 << STK_FILTER_WIDE_SHIFT;
	for (int32_t k = 0; k < n; k++) {
		float weight = weights[k * stride];
		int32_t w = narrow ? (int32_t)(weight * 65536.0f + 0.5f)
				   : (int16_t)stk__taps_floor(weight * (float)(1 << STK_FILTER_WIDE_SHIFT) + 0.5f);
		bool larger = narrow ? w > most : k == 0 || w > most;
		rest -= w;
		largest = larger ? k : largest;
		most = larger ? w : most;
		weights[k * stride] = narrow ? (float)min(w, 65535) : __int_as_float(w);
	}
	weights[largest * stride] = narrow ? (float)stk__taps_clamp(most + rest, 0, 65535) : __int_as_float((int16_t)(most + rest));
}

/* Returns the position in the sampler's input that is nearest to an output, as stk__filter_nearest does. summed: adds up the step between positions, as the CPU
 * does vertically, so that rounding is the same. */
static __device__ int32_t nearest(const stk_filter_axis &a, bool summed, int32_t output)
{
	if (!summed)
		return stk__taps_first(&a, output);
	float at = a.start + 0.5f * a.scale;
	for (int32_t k = 0; k < output; k++)
		at += a.scale;
	return stk__taps_clamp(stk__taps_floor(stk__taps_limit(at)), 0, a.in_size - 1);
}

/* Computes first taps and weights for each resized axis; a nearest resize has no weights. Each image has two thread blocks, one for each axis. */
extern "C" __global__ void __launch_bounds__(THREADS) pass_taps(const __grid_constant__ stk_pass_gpu_view v)
{
	const stk_pass_gpu_item &it = v.items[blockIdx.x / 2];
	const stk_pass_gpu_axis &axis = it.axis[blockIdx.x % 2];
	bool plain = it.mode == STK_PASS_GPU_PLAIN || it.mode == STK_PASS_GPU_COPY;
	if (it.mode == STK_PASS_GPU_WARP || (plain && !axis.filter.n))
		return;
	for (int32_t i = axis.begin + threadIdx.x; i < axis.end; i += THREADS) {
		int32_t output = map(axis.post, i), first;
		if (plain) {
			first = nearest(axis.filter, blockIdx.x % 2 == 1, output);
		} else {
			float *weights = v.weights + axis.weights + i;
			first = stk__taps_make(&axis.filter, output, weights, axis.size);
			if (it.kind != STK_RESAMPLE_FLOAT)
				quantize(weights, axis.size, axis.filter.n, it.kind == STK_NARROW);
		}
		v.first[axis.first + i] = map(axis.pre, first);
	}
}

/* ---- pointwise steps and the store ---- */

/* The parameters of the common ways to finish a pixel (enum stk_pass_gpu_finish). They are copied to registers, since the compiler must assume that stores
 * change the originals. */
struct ending {
	int32_t finish, dtype, channels;
	float scale[CHANNELS], bias[CHANNELS];
	uint8_t *dst;
	int64_t row, pixel, channel;
};

static __device__ __forceinline__ ending make_ending(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it)
{
	ending e = {it.finish, it.dtype, it.in_c, {}, {}, (uint8_t *)it.dst, it.dst_row, it.dst_pixel, it.dst_channel};
	if (e.finish == STK_PASS_GPU_AFFINE)
#pragma unroll
		for (int c = 0; c < CHANNELS; c++) {
			e.scale[c] = v.steps[it.step0].scale[c];
			e.bias[c] = v.steps[it.step0].bias[c];
		}
	return e;
}

/* Stores the first `rows` of N pixels in a column, value by value. to: address of the first pixel; value(x, c): converts value x of channel c for storing. */
template <typename T, int C, int N, typename F>
static __device__ __forceinline__ void store_each(const ending &e, uint8_t *to, const float (&p)[N][CHANNELS], int32_t rows, F value)
{
#pragma unroll
	for (int c = 0; c < C; c++, to += e.channel) {
		if (c >= e.channels)
			break;
		uint8_t *at = to;
#pragma unroll
		for (int i = 0; i < N; i++, at += e.row)
			if (i < rows)
				*(T *)at = value(p[i][c], c);
	}
}

/* If the pass has a common ending (e.finish), finishes and stores pixels p of column x, from row y on but at most `rows` of them, and returns true;
 * otherwise returns false. C: maximum number of channels. */
template <int C, int N>
static __device__ __forceinline__ bool finish_soon(const ending &e, const float (&p)[N][CHANNELS], int32_t x, int32_t y, int32_t rows)
{
	if (e.finish == STK_PASS_GPU_STEPS)
		return false;
	uint8_t *to = e.dst + y * e.row + x * e.pixel;
	if (e.finish == STK_PASS_GPU_BYTES)
		store_each<uint8_t, C>(e, to, p, rows, [](float x, int) { return (uint8_t)(int32_t)x; });
	else if (e.finish == STK_PASS_GPU_FLOATS)
		store_each<float, C>(e, to, p, rows, [](float x, int) { return x; });
	else if (e.dtype == STK_FLOAT16)
		store_each<uint16_t, C>(e, to, p, rows, [&](float x, int c) { return stk__half_bits(x * e.scale[c] + e.bias[c]); });
	else if (e.dtype == STK_BFLOAT16)
		store_each<uint16_t, C>(e, to, p, rows, [&](float x, int c) { return stk__bfloat_bits(x * e.scale[c] + e.bias[c]); });
	else
		store_each<float, C>(e, to, p, rows, [&](float x, int c) { return x * e.scale[c] + e.bias[c]; });
	return true;
}

/* ---- resizes ---- */

/* The part of the source that outputs [x0, x1) of a row read: the column of its leftmost pixel, and values [begin, end) of a row, counted from column it.x0. */
struct reach {
	int32_t column, begin, end;
};

static __device__ __forceinline__ reach find_reach(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t x1)
{
	const stk_pass_gpu_axis &a = it.axis[0];
	int32_t one = v.first[a.first + x0], other = v.first[a.first + x1 - 1], low = min(one, other), high = max(one, other);
	if (a.pre.step > 0)
		high += a.filter.n - 1;
	else
		low -= a.filter.n - 1;
	reach r = {low, (low - it.x0) * it.in_c, (high + 1 - it.x0) * it.in_c};
	return r;
}

/* The layout of a thread block's intermediate values. Value number b of the source's rows contributes to one value in each of TOGETHER adjacent rows. These
 * values are stored together as a quad, whose index is pitch * (row / TOGETHER) + b - origin. */
struct strip {
	int32_t origin, pitch;
	bool words; /* true if the source is read four values at a time from aligned addresses */
};

/* Returns the layout of the intermediate values for outputs that read part r of the source. S: type of the source's values. */
template <typename S> static __device__ __forceinline__ strip lay_out(const stk_pass_gpu_item &it, const reach &r)
{
	const int32_t size = sizeof(S);
	strip s;
	s.words = (it.src_row & (4 * size - 1)) == 0;
	s.origin = r.begin - (s.words ? (int32_t)(it.src / size + r.begin & 3) : 0);
	s.pitch = (r.end - s.origin + 3) & ~3;
	return s;
}

/* Returns four values of a row, the first in the lowest byte. Those from the n-th on are 0; with WORDS, `from` is aligned and all four are read. */
template <bool WORDS> static __device__ __forceinline__ uint32_t load_four(const uint8_t *from, int32_t n)
{
	if constexpr (WORDS)
		return __ldg((const uint32_t *)from);
	uint32_t word = 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		word |= i < n ? (uint32_t)__ldg(from + i) << 8 * i : 0;
	return word;
}

template <bool WORDS> static __device__ __forceinline__ float4 load_four(const float *from, int32_t n)
{
	if constexpr (WORDS)
		return __ldg((const float4 *)(const void *)from);
	return make_float4(__ldg(from), n > 1 ? __ldg(from + 1) : 0, n > 2 ? __ldg(from + 2) : 0, n > 3 ? __ldg(from + 3) : 0);
}

/* Computes the vertical half of a resize: TOGETHER rows of intermediate values, from output row y on. Each thread processes four adjacent values of the source
 * at a time. A row outside of [top, bottom) reads the source rows of the nearest row inside, and its values are not used. */
template <typename K, bool WORDS>
static __device__ __forceinline__ void vertical(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t y, int32_t top,
	int32_t bottom, const reach &r, const strip &s, quad<K> *to)
{
	const stk_pass_gpu_axis &a = it.axis[1];
	int32_t n = a.filter.n, size = a.size, bias = a.bias, b = s.origin + 4 * (threadIdx.x % ROW_THREADS);
	int32_t src_row = (int32_t)it.src_row, tap = a.pre.step * (src_row / (int32_t)sizeof(typename K::source));
	using S = typename K::source;
	const S *from[TOGETHER];
#pragma unroll
	for (int i = 0; i < TOGETHER; i++) {
		int32_t row = __ldg(&v.first[a.first + stk__taps_clamp(y + i, top, bottom - 1)]) - it.y0;
		from[i] = (const S *)(it.src + (int64_t)row * src_row) + b;
	}
	for (; b < r.end; b += 4 * ROW_THREADS) {
		const float *weights = &v.weights[a.weights + y];
		typename K::total sum[TOGETHER][4];
		int64_t at = 0;
#pragma unroll
		for (int i = 0; i < 4 * TOGETHER; i++)
			sum[i / 4][i % 4] = K::start_byte(i % 4, bias);
		int32_t t = 0;
#pragma unroll 1
		do {
#pragma unroll
			for (int i = 0; i < TOGETHER; i++) {
				auto word = load_four<WORDS>(from[i] + at, r.end - b);
				float weight = __ldg(weights + i);
#pragma unroll
				for (int k = 0; k < 4; k++)
					K::add_byte(sum[i][k], word, k, weight);
			}
			weights += size;
			at += tap;
		} while (++t < n);
		columns<K> made;
#pragma unroll
		for (int i = 0; i < TOGETHER; i++) {
			from[i] += 4 * ROW_THREADS;
#pragma unroll
			for (int k = 0; k < 4; k++)
				made.byte[k].row[i] = K::keep(sum[i][k]);
		}
		*(columns<K> *)(to + b - s.origin) = made;
	}
}

/* The taps of an output column, and the index of the first tap's quads in the intermediate values. */
struct column {
	const float *weights;
	int32_t at, n, size, step, bias;
};

static __device__ __forceinline__ column find_column(
	const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x, const reach &r, const strip &s)
{
	const stk_pass_gpu_axis &a = it.axis[0];
	int32_t at = (__ldg(&v.first[a.first + x]) - r.column) * it.in_c + r.begin - s.origin;
	return {&v.weights[a.weights + x], at, a.filter.n, a.size, a.pre.step * it.in_c, a.bias};
}

/* Computes the horizontal half of a resize: an output column p, made from TOGETHER rows of intermediate values. */
template <typename K, int C>
static __device__ __forceinline__ void horizontal(const column &a, const quad<K> *from, int32_t sampled, float p[TOGETHER][CHANNELS])
{
	const float *weights = a.weights;
	typename K::total sum[TOGETHER][C];
	from += a.at;
#pragma unroll
	for (int i = 0; i < TOGETHER * C; i++)
		sum[i / C][i % C] = K::start(a.bias);
	int32_t t = 0;
#pragma unroll 1 /* there are few taps: an unrolled loop would leave most of them to its remainder loop */
	do {
		float weight = __ldg(weights);
#pragma unroll
		for (int c = 0; c < C; c++) {
			quad<K> value = from[c];
#pragma unroll
			for (int i = 0; i < TOGETHER; i++)
				K::add(sum[i][c], value.row[i], weight);
		}
		from += a.step;
		weights += a.size;
	} while (++t < a.n);
#pragma unroll
	for (int i = 0; i < TOGETHER; i++)
#pragma unroll
		for (int c = 0; c < C; c++)
			p[i][c] = K::result(sum[i][c], sampled);
}

/* Makes the outputs of a thread block from (x0, y0) on. K: struct narrow or another kind of arithmetic; C: maximum number of source channels, a constant so
 * that no work is done for a fourth channel if there are three. */
template <typename K, int C>
static __device__ void resize(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t y0, quad<K> *shared)
{
	const stk_pass_gpu_axis &ax = it.axis[0], &ay = it.axis[1];
	int32_t x1 = min(x0 + it.columns, ax.size), y1 = min(y0 + ROWS, ay.size);
	int32_t from = max(x0, ax.begin), to = min(x1, ax.end), top = max(y0, ay.begin), bottom = min(y1, ay.end);
	bool any = from < to && top < bottom;
	reach r = {};
	if (any)
		r = find_reach(v, it, from, to);
	strip s = lay_out<typename K::source>(it, r);
	int32_t group = threadIdx.x / ROW_THREADS, y = y0 + TOGETHER * group;
	if (any && y < bottom && y + TOGETHER > top) {
		if (s.words)
			vertical<K, true>(v, it, y, top, bottom, r, s, shared + group * s.pitch);
		else
			vertical<K, false>(v, it, y, top, bottom, r, s, shared + group * s.pitch);
	}
	__syncthreads();
	ending e = make_ending(v, it);
	/* Adjacent threads make adjacent columns. If there are at least twice as many threads as columns, both halves of the rows are made at the same time. */
	int32_t wide = (x1 - x0 + 31) & ~31, both = wide <= ROW_THREADS, second = both && threadIdx.x >= wide,
		x = x0 + threadIdx.x - second * wide;
	if (x >= x1)
		return;
	bool across = x >= from && x < to && any;
	column taps = {};
	if (across)
		taps = find_column(v, it, x, r, s);
	for (group = second, y = y0 + TOGETHER * group; y < y1; group += 1 + both, y = y0 + TOGETHER * group) {
		float p[TOGETHER][CHANNELS] = {};
		bool inside = across && y < bottom && y + TOGETHER > top;
		if (inside)
			horizontal<K, C>(taps, shared + group * s.pitch, it.sampled, p);
		if (finish_soon<C>(e, p, x, y, y1 - y))
			continue;
#pragma unroll
		for (int i = 0; i < TOGETHER; i++)
			if (y + i < y1)
				finish(v, it, hold(p[i]), inside && y + i >= top && y + i < bottom, x, y + i);
	}
}

template <typename K>
static __device__ __forceinline__ void resize_any(
	const stk_pass_gpu_view &v, const stk_pass_gpu_item &it, int32_t x0, int32_t y0, uint8_t *shared)
{
	if (it.in_c <= 3)
		resize<K, 3>(v, it, x0, y0, (quad<K> *)shared);
	else
		resize<K, 4>(v, it, x0, y0, (quad<K> *)shared);
}

struct corner {
	int32_t x, y;
};

static __device__ __forceinline__ corner find_corner(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it)
{
	uint32_t block = blockIdx.x - it.block0[v.launch], down = block / it.across;
	return {(int32_t)(block - down * it.across) * it.columns, (int32_t)down * ROWS};
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_run(const __grid_constant__ stk_pass_gpu_view v)
{
	STK_SHARED_ARRAY(uint8_t, shared);
	const stk_pass_gpu_item &it = find_item(v);
	corner at = find_corner(v, it);
	if (it.kind == STK_NARROW)
		resize_any<narrow>(v, it, at.x, at.y, shared);
	else if (it.kind == STK_WIDE)
		resize_any<wide>(v, it, at.x, at.y, shared);
	else
		resize_any<real>(v, it, at.x, at.y, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) pass_run_floats(const __grid_constant__ stk_pass_gpu_view v)
{
	STK_SHARED_ARRAY(uint8_t, shared);
	const stk_pass_gpu_item &it = find_item(v);
	corner at = find_corner(v, it);
	resize_any<real_of_floats>(v, it, at.x, at.y, shared);
}
