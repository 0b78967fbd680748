/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/common/cuda.cuh"
#include "kernel/yuv/yuv.h"

/* Returns sample x of a row of a plane, without the unused lower bits of its word. */
static __device__ __forceinline__ int32_t sample(const stk_yuv_gpu &p, const uint8_t *row, int plane, int32_t x)
{
	const uint8_t *at = row + (int64_t)x * p.step[plane];
	return p.bits == 8 ? __ldg(at) : __ldg((const uint16_t *)at) >> p.shift;
}

static __device__ __forceinline__ int32_t clip(int32_t v)
{
	return v < 0 ? 0 : v > 255 ? 255 : v;
}

/* Stores values of one channel of n pixels, at most STK_YUV_PIXELS. pixel: distance in bytes from one pixel to the next. */
static __device__ __forceinline__ void store(uint8_t *to, int64_t pixel, const int32_t *values, int32_t n)
{
	if (pixel == 1 && n == STK_YUV_PIXELS && (uintptr_t)to % 4 == 0) {
		*(uint32_t *)to = (uint32_t)(values[0] | values[1] << 8 | values[2] << 16 | values[3] << 24);
		return;
	}
	for (int32_t i = 0; i < n; i++)
		to[i * pixel] = (uint8_t)values[i];
}

/* Stores four pixels of interleaved channels as three words. `to` must be a multiple of 4. */
static __device__ __forceinline__ void store_pixels(uint8_t *to, const int32_t *r, const int32_t *g, const int32_t *b)
{
	uint32_t *words = (uint32_t *)to;
	words[0] = (uint32_t)(r[0] | g[0] << 8 | b[0] << 16 | r[1] << 24);
	words[1] = (uint32_t)(g[1] | b[1] << 8 | r[2] << 16 | g[2] << 24);
	words[2] = (uint32_t)(b[2] | r[3] << 8 | g[3] << 16 | b[3] << 24);
}

/* Converts at most four adjacent pixels per thread. blockIdx.y is the row. */
extern "C" __global__ void __launch_bounds__(STK_YUV_THREADS) yuv_to_rgb(const stk_yuv_gpu p)
{
	const int32_t x = STK_YUV_PIXELS * (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), y = (int32_t)blockIdx.y;
	if (x >= p.width)
		return;
	const uint8_t *rows[3];
	for (int c = 0; c < 3; c++)
		rows[c] = (const uint8_t *)p.planes[c] + (int64_t)(c ? y >> p.sub_y : y) * p.row[c];
	const int32_t n = p.width - x < STK_YUV_PIXELS ? p.width - x : STK_YUV_PIXELS, s = 16 + p.bits - 8, half = 1 << (s - 1);
	int32_t r[STK_YUV_PIXELS], g[STK_YUV_PIXELS], b[STK_YUV_PIXELS];
#pragma unroll
	for (int32_t i = 0; i < STK_YUV_PIXELS; i++) {
		const int32_t at = x + (i < n ? i : n - 1);
		const int32_t l = p.luma * (sample(p, rows[0], 0, at) - p.luma_zero) + half;
		const int32_t u = sample(p, rows[1], 1, at >> p.sub_x) - p.chroma_zero;
		const int32_t v = sample(p, rows[2], 2, at >> p.sub_x) - p.chroma_zero;
		r[i] = clip((l + p.red_v * v) >> s);
		g[i] = clip((l - p.green_u * u - p.green_v * v) >> s);
		b[i] = clip((l + p.blue_u * u) >> s);
	}
	uint8_t *to = (uint8_t *)p.to + y * p.to_row + x * p.to_pixel;
	if (p.to_pixel == 3 && p.to_channel == 1 && n == STK_YUV_PIXELS && (uintptr_t)to % 4 == 0) {
		store_pixels(to, r, g, b);
		return;
	}
	store(to, p.to_pixel, r, n);
	store(to + p.to_channel, p.to_pixel, g, n);
	store(to + 2 * p.to_channel, p.to_pixel, b, n);
}
