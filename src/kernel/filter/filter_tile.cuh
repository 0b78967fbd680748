/* SPDX-License-Identifier: Apache-2.0
 * The building blocks of tiled filters (filter_tile.h): rows of the input in shared memory, sums over windows that slide along them, and stores. Each thread
 * makes several outputs. For most windows it reads each value from shared memory once for all of these outputs. The values of a window are still added
 * in the order of filter_element.h, so the bits are the same. */
#ifndef STK_KERNEL_FILTER_TILE_CUH
#define STK_KERNEL_FILTER_TILE_CUH

#include "kernel/common/pixels.cuh"
#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_tile.h"

/* The part of the output that a thread block makes. */
struct filter_tile {
	int32_t x, y, rows, values; /* position of the tile's first output; number of rows; number of outputs in a row, over all channels */
	int64_t src, dst;           /* indices of the image's first value, and of the tile's first output */
};

static __device__ __forceinline__ filter_tile find_tile(const stk_filter &f, const stk_filter_tiles &t, uint32_t block)
{
	uint32_t row = block / t.across, outer = row / t.down;
	filter_tile tile;
	tile.x = (int32_t)(block - row * t.across) * t.width;
	tile.y = (int32_t)(row - outer * t.down) * t.height;
	tile.rows = min(t.height, f.out[1] - tile.y);
	tile.values = min(t.width, f.out[2] - tile.x) * f.channels;
	tile.src = outer * stk__filter_volume(&f, f.in);
	tile.dst = outer * stk__filter_volume(&f, f.out) + ((int64_t)tile.y * f.out[2] + tile.x) * f.channels;
	return tile;
}

/* ---- rows of the input ---- */

static __device__ __noinline__ float load_any(const uint8_t *src, int64_t i, int dtype)
{
	return stk__filter_load(src, i, dtype);
}

/* Converts values low .. high - 1 of a row of bytes to floats, and stores them from `to` on. Reads aligned words and stores float4s, except at the ends. So if
 * row + low is k bytes after a multiple of 4 bytes, `to` must be k floats after a multiple of 16 bytes. All lanes of a warp must call this. */
static __device__ __forceinline__ void load_bytes(float *to, const uint8_t *row, int32_t low, int32_t high)
{
	int32_t skew = (int32_t)((uintptr_t)(row + low) & 3), n = high - low;
#pragma unroll 2
	for (int32_t i = 4 * (int32_t)(threadIdx.x % 32) - skew; i < n; i += 128) {
		const uint8_t *from = row + low + i;
		if (i >= 0 && i + 4 <= n) {
			uint32_t word = *(const uint32_t *)from;
			*(float4 *)(to + i) =
				make_float4((float)(word & 255), (float)(word >> 8 & 255), (float)(word >> 16 & 255), (float)(word >> 24));
			continue;
		}
#pragma unroll 1
		for (int32_t k = max(0, -i); k < min(4, n - i); k++)
			to[i + k] = (float)from[k];
	}
}

/* Loads values begin .. end - 1 of row y, counted from the row's first value. src: index of the image's first value. Values outside of the row come from the
 * border. line: shared memory for end - begin + 3 floats. Returns the address in `line` of the first value. All lanes of a warp must call this. */
static __device__ __forceinline__ float *load_row(
	const stk_filter &f, const stk_filter_data &d, int64_t src, int32_t y, int32_t begin, int32_t end, float fill, float *line)
{
	int32_t lane = (int32_t)(threadIdx.x % 32), n = f.in[2] * f.channels, low = max(begin, 0), high = min(end, n);
	y = stk__border_index(y, f.in[1], f.border);
	if (y < 0) {
#pragma unroll 1
		for (int32_t i = lane; i < end - begin; i += 32)
			line[i] = fill;
		return line;
	}
	src += (int64_t)y * n;
	if (d.src_dtype == STK_UINT8) {
		const uint8_t *row = d.src + src;
		line += ((int32_t)((uintptr_t)(row + low) & 3) + begin - low) & 3;
		load_bytes(line + low - begin, row, low, high);
	} else if (d.src_dtype == STK_FLOAT) {
		const float *row = (const float *)(const void *)d.src + src;
#pragma unroll 2
		for (int32_t v = low + lane; v < high; v += 32)
			line[v - begin] = stk__filter_one_nan(row[v]);
	} else {
#pragma unroll 1
		for (int32_t v = low + lane; v < high; v += 32)
			line[v - begin] = load_any(d.src, src + v, d.src_dtype);
	}
	int32_t left = min(low, end) - begin, from = max(high, begin), outside = left + end - from;
#pragma unroll 1
	for (int32_t i = lane; i < outside; i += 32) {
		int32_t v = i < left ? begin + i : from + i - left, p = v >= 0 ? v / f.channels : -((f.channels - 1 - v) / f.channels);
		int32_t channel = v - p * f.channels;
		p = stk__border_index(p, f.in[2], f.border);
		line[v - begin] = p < 0 ? fill : load_any(d.src, src + p * f.channels + channel, d.src_dtype);
	}
	return line;
}

/* ---- windows ---- */

/* The initial value of a sum: adding a number to -0 gives exactly that number, also 0 and -0. Other reductions begin with the first value. */
#define FILTER_NOTHING -0.0f

template <int REDUCTION> static __device__ __forceinline__ float combine(float before, float x, float weight, bool first)
{
	if (REDUCTION == STK_FILTER_SUM)
		return before + weight * x;
	return first ? x : stk__filter_take(REDUCTION, before, x);
}

/* Applies a window of SIZE positions to N outputs. Arguments: as for `slide`. */
template <int REDUCTION, int N, int SIZE>
static __device__ __forceinline__ void slide_short(float (&sum)[N], const float *from, int32_t step, const float *weights)
{
	float weight[SIZE];
#pragma unroll
	for (int k = 0; k < SIZE; k++)
		weight[k] = REDUCTION == STK_FILTER_SUM ? weights[k] : 0;
#pragma unroll
	for (int m = 0; m < N + SIZE - 1; m++, from += step) {
		float x = *from;
#pragma unroll
		for (int i = 0; i < N; i++)
			if (m >= i && m - i < SIZE)
				sum[i] = combine<REDUCTION>(sum[i], x, weight[m - i], m == i);
	}
}

/* Computes weighted sums as `slide` does, for a window of at least N positions. N weights are in registers at a time: that of position k in weight[k % N]. */
template <int N>
static __device__ __forceinline__ void slide_long(float (&sum)[N], const float *from, int32_t step, int32_t size, const float *weights)
{
	float weight[N];
#pragma unroll
	for (int m = 0; m < N; m++, from += step) {
		float x = *from;
		weight[m] = weights[m];
#pragma unroll
		for (int i = 0; i <= m; i++)
			sum[i] = combine<STK_FILTER_SUM>(sum[i], x, weight[m - i], m == i);
	}
	int32_t done = N;
#pragma unroll 1
	for (; done + N <= size; done += N) {
#pragma unroll
		for (int m = 0; m < N; m++, from += step) {
			float x = *from;
			weight[m] = weights[done + m];
#pragma unroll
			for (int i = 0; i < N; i++)
				sum[i] = combine<STK_FILTER_SUM>(sum[i], x, weight[(m - i + N) % N], false);
		}
	}
	int32_t left = size - done; /* number of positions that the first output still needs, which is less than N */
#pragma unroll
	for (int m = 0; m < 2 * N - 2; m++, from += step) {
		if (m >= left + N - 1)
			break;
		float x = *from;
		if (m < left)
			weight[m % N] = weights[done + m];
#pragma unroll
		for (int i = 0; i < N; i++)
			if (m - i < left)
				sum[i] = combine<STK_FILTER_SUM>(sum[i], x, weight[(m - i + N) % N], false);
	}
}

/* Applies a window of any size to N outputs. from: the first of `size` positions that the first output reads. Positions and outputs are `step` floats apart. */
template <int REDUCTION, int N>
static __device__ __forceinline__ void slide(float (&sum)[N], const float *from, int32_t step, int32_t size, const float *weights)
{
	if (size == 3) {
		slide_short<REDUCTION, N, 3>(sum, from, step, weights);
	} else if (REDUCTION == STK_FILTER_SUM && size == 5) {
		slide_short<REDUCTION, N, 5>(sum, from, step, weights);
	} else if (REDUCTION == STK_FILTER_SUM && size == 7) {
		slide_short<REDUCTION, N, 7>(sum, from, step, weights);
	} else if (REDUCTION == STK_FILTER_SUM && size >= N) {
		slide_long<N>(sum, from, step, size, weights);
	} else {
#pragma unroll 1
		for (int32_t k = 0; k < size; k++, from += step)
#pragma unroll
			for (int i = 0; i < N; i++)
				sum[i] = combine<REDUCTION>(sum[i], from[i * step], REDUCTION == STK_FILTER_SUM ? weights[k] : 0, k == 0);
	}
}

/* ---- outputs ---- */

static __device__ __noinline__ void store_any(uint8_t *dst, int64_t i, int32_t size, int dtype, float x)
{
	stk__convert_one(dst + i * size, dtype, &x, STK_FLOAT);
}

static __device__ __forceinline__ void store_value(const stk_filter_data &d, int64_t i, float x)
{
	if (d.dst_dtype == STK_UINT8)
		d.dst[i] = (uint8_t)stk__to_byte(x);
	else if (d.dst_dtype == STK_FLOAT)
		((float *)(void *)d.dst)[i] = x;
	else
		store_any(d.dst, i, d.dst_size, d.dst_dtype, x);
}

/* Stores n bytes from shared memory, as words except at the ends. `from` and `to` must be equal modulo 4. All lanes of a warp must call this. */
static __device__ __forceinline__ void store_bytes(uint8_t *to, const uint8_t *from, int32_t n)
{
#pragma unroll 1
	for (int32_t v = 4 * (int32_t)(threadIdx.x % 32) - (int32_t)((uintptr_t)to & 3); v < n; v += 128) {
		if (v >= 0 && v + 4 <= n) {
			*(uint32_t *)(void *)(to + v) = *(const uint32_t *)(const void *)(from + v);
			continue;
		}
#pragma unroll 1
		for (int32_t k = max(v, 0); k < min(v + 4, n); k++)
			to[k] = from[k];
	}
}

/* Stores a warp's row of n outputs, from value i of the destination on; all lanes must call this. A lane for which `any` is set has N outputs, whose indices in
 * the row are `at`, `at` + step and so on. The outputs are first collected in `line`, shared memory for n floats, so that adjacent values are stored
 * together. */
template <int N>
static __device__ __forceinline__ void store_row(
	const stk_filter_data &d, int64_t i, const float (&value)[N], bool any, int32_t at, int32_t step, float *line, int32_t n)
{
	bool bytes = d.dst_dtype == STK_UINT8;
	uint8_t *to = d.dst + i, *packed = (uint8_t *)(void *)line + ((uintptr_t)to & 3);
	if (any && bytes)
#pragma unroll
		for (int k = 0; k < N; k++)
			packed[at + k * step] = (uint8_t)stk__to_byte(value[k]);
	else if (any)
#pragma unroll
		for (int k = 0; k < N; k++)
			line[at + k * step] = value[k];
	__syncwarp();
	if (bytes) {
		store_bytes(to, packed, n);
	} else {
#pragma unroll 1
		for (int32_t v = (int32_t)(threadIdx.x % 32); v < n; v += 32)
			store_value(d, i + v, line[v]);
	}
	__syncwarp();
}

#endif
