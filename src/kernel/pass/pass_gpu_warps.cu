/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h) that do nothing but warp interleaved uint8 or float32 of 1, 3 or 4 channels, such as augmentations that only change
 * geometry. kernel/common/texels.cuh makes most pixels; those that it leaves to its caller are made as in pass_gpu_pixels.cu. */
#include "kernel/common/texels.cuh"
#include "kernel/pass/pass_gpu_warp.cuh"

#define WARPS (THREADS / STK_TEXEL_WIDTH)

template <typename T, int C> static __device__ __forceinline__ stk_texel<T, C> texel_of(const float p[CHANNELS])
{
	stk_texel<T, C> t = {};
#pragma unroll
	for (int c = 0; c < C; c++)
		if constexpr (sizeof(T) == 1)
			t.word |= stk__to_byte(p[c]) << 8 * c;
		else
			t.value[c] = p[c];
	return t;
}

/* Returns true only if each output that reads no pixel of the image is exactly the fill value. Interpolating between equal integers gives the same integer;
 * interpolating between zeros gives 0, but between negative zeros it does not give -0. */
template <typename T> static __device__ __forceinline__ bool becomes_fill(const stk_warp &w, bool linear)
{
	return !w.clamp && (!linear || __float_as_uint(w.fill) == 0 || (sizeof(T) == 1 && w.fill == (float)stk__to_byte(w.fill)));
}

/* Returns true only if no pixel of a tile reads a pixel of the image. Along rows and columns, positions only grow or only fall, however they are rounded. So
 * if all corners are beyond the same side of the image, all pixels are. x, y: one of the corners; each corner must be passed by some lane. All threads of a
 * warp must call this. */
static __device__ __noinline__ bool lies_outside(const stk_pass_gpu_item &it, bool linear, int32_t x, int32_t y)
{
	const float far = 1e6f, before = linear ? -1 : 0; /* as in stk__texel_outside */
	stk_warp_row row = warp_row(it, linear);
	float at[2];
	row.first = map(it.axis[0].post, x);
	row.y = map(it.axis[1].post, y);
	stk__warp_place(&row, 0, at);
	if (!__all_sync(~0u, at[0] > -far && at[0] < far && at[1] > -far && at[1] < far))
		return false;
	return __all_sync(~0u, at[0] < before) || __all_sync(~0u, at[0] >= (float)it.mid_w) || __all_sync(~0u, at[1] < before) ||
	       __all_sync(~0u, at[1] >= (float)it.mid_h);
}

/* Makes the outputs of a tile. ROWS: number of rows that a warp makes at a time. */
template <typename T, int C, bool LINEAR, int ROWS>
static __device__ __forceinline__ void make_tile(const stk_pass_gpu_item &it, const stk_texel_tile &tile)
{
	const stk_warp &warp = it.warp;
	bool fills = becomes_fill<T>(warp, LINEAR);
	const float fill[CHANNELS] = {warp.fill, warp.fill, warp.fill, warp.fill};
	const stk_axis_map &column = it.axis[0].pre, &row = it.axis[1].pre;
	int32_t begin = max(it.x0 - column.first, 0), end = min(it.x0 + it.src_w - column.first, it.mid_w);
	stk_texel_source from = {source_pixel<T>(it, column.first, row.first), (int32_t)(row.step * it.src_row), it.mid_w, it.mid_h, begin,
		end, fills, warp.clamp && it.mid_w > 1};
	auto place = [&](const auto &x, const auto &y, auto &at) {
		stk_warp_row w = warp_row(it, LINEAR);
#pragma unroll
		for (int k = 0; k < (int)(sizeof at / sizeof *at); k++) {
			w.first = map(it.axis[0].post, x[k]);
			w.y = map(it.axis[1].post, y[k]);
			stk__warp_place(&w, 0, at[k]);
		}
	};
	auto border = [&](const float at[2]) {
		warp_source s = make_warp_source<T>(it);
		float p[CHANNELS];
		s.row.linear = LINEAR;
		s.step_x = s.channels = C;
		s.sampled = sizeof(T) == 1 ? STK_UINT8 : STK_FLOAT;
		sample_warp<T, C>(s, at, p);
		return texel_of<T, C>(p);
	};
#pragma unroll 1
	for (int32_t y = tile.y0 + ROWS * (int32_t)(threadIdx.x / STK_TEXEL_WIDTH); y < tile.y1; y += ROWS * WARPS)
		stk__texel_rows<T, C, LINEAR, ROWS>(from, tile, texel_of<T, C>(fill), y, place, border);
}

/* Returns a coordinate of one of a tile's corners; the corner depends on the lane. axis: 0 is x, 1 is y. */
static __device__ __forceinline__ int32_t corner_of(const stk_texel_tile &t, int axis)
{
	bool last = threadIdx.x >> axis & 1;
	if (axis == 1)
		return last ? t.y1 - 1 : t.y0;
	return last ? min(t.x0 + STK_TEXEL_WIDTH, t.width) - 1 : max(t.x0 - STK_TEXEL_SHIFT, 0);
}

template <typename T, int C> static __device__ __forceinline__ void fill_tile(float value, const stk_texel_tile &tile)
{
	const float fill[CHANNELS] = {value, value, value, value};
#pragma unroll 1
	for (int32_t y = tile.y0 + (int32_t)(threadIdx.x / STK_TEXEL_WIDTH); y < tile.y1; y += WARPS)
		stk__texel_put(tile, y, texel_of<T, C>(fill));
}

template <typename T, int C> static __device__ __forceinline__ void make_tile_of(const stk_pass_gpu_item &it, const stk_texel_tile &tile)
{
	bool linear = it.warp.interp != STK_INTERP_NN;
	if (becomes_fill<T>(it.warp, linear) && lies_outside(it, linear, corner_of(tile, 0), corner_of(tile, 1))) {
		fill_tile<T, C>(it.warp.fill, tile);
		return;
	}
	if (!linear)
		make_tile<T, C, false, sizeof(T) == 1 ? 8 : 4>(it, tile);
	else
		make_tile<T, C, true, sizeof(T) == 1 ? 4 : 2>(it, tile);
}

template <typename T> static __device__ __forceinline__ void make_any_tile(const stk_pass_gpu_item &it, const stk_texel_tile &tile)
{
	if (it.in_c == 3)
		make_tile_of<T, 3>(it, tile);
	else if (it.in_c == 1)
		make_tile_of<T, 1>(it, tile);
	else
		make_tile_of<T, 4>(it, tile);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_warps(const __grid_constant__ stk_pass_gpu_view v)
{
	__shared__ stk_pass_gpu_item item;
	__shared__ float4 turn[THREADS];
	share_item(v, item);
	bool aligned = ((item.dst | (uint64_t)item.dst_row) & 3) == 0;
	const stk_texel_tile tile = stk__texel_tile_of((uint8_t *)item.dst, item.dst_row, item.axis[0].size, item.axis[1].size, aligned,
		blockIdx.x - item.block0[v.launch], (float *)turn);
	if (item.in_dtype == STK_UINT8)
		make_any_tile<uint8_t>(item, tile);
	else
		make_any_tile<float>(item, tile);
}
