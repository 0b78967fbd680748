/* SPDX-License-Identifier: Apache-2.0
 * JPEG distortion on the GPU, tile by tile (kernel/jpeg_distortion/jpeg_distortion_tile.h): the arithmetic of jpeg_distortion_element.h. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/common/pixels.cuh"
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"
#include "kernel/jpeg_distortion/jpeg_distortion_tile.h"

#define WIDTH STK_JPEG_TILE_WIDTH
#define HEIGHT STK_JPEG_TILE_HEIGHT
#define BLOCKS (STK_JPEG_TILE_THREADS / 8)
#define PITCH 9 /* words of a row of coefficients: rows and columns are read without two lanes at one bank */

/* The place of a thread block's tile in its job. */
struct tile_place {
	uint32_t frame;
	int32_t x, y;
};

static __device__ __forceinline__ tile_place find_tile(uint32_t block, stk_jpeg_tiles t, int32_t width, int32_t height)
{
	uint32_t row = block / t.across, frame = row / t.down;
	return {frame, (int32_t)(block - row * t.across) * width, (int32_t)(row - frame * t.down) * height};
}

/* Of a thread block: samples of luma, then those of the two colours, and the coefficients of their blocks. */
struct tile_samples {
	__align__(8) uint8_t luma[HEIGHT][WIDTH];
	__align__(8) uint8_t chroma[2][HEIGHT / 2][WIDTH / 2];
	int32_t coefficients[BLOCKS][8 * PITCH];
};

/* The samples of 2 x 2 pixels, the colours' number (x, y) of the frame and (i, k) of the tile. */
static __device__ __forceinline__ void make_samples(
	const stk_jpeg_distortion &j, const uint8_t *frame, int32_t x, int32_t y, int32_t i, int32_t k, tile_samples &s)
{
	if (y > (j.height - 1) / 2) { /* below the image, where luma and colours repeat other rows */
		for (int p = 0; p < 4; p++)
			s.luma[2 * k + p / 2][2 * i + p % 2] = stk__jpeg_sample(&j, frame, 0, 2 * x + p % 2, 2 * y + p / 2);
		for (int c = 0; c < 2; c++)
			s.chroma[c][k][i] = stk__jpeg_sample(&j, frame, 1 + c, x, y);
		return;
	}
	int32_t last = j.width - 1, sum[2] = {};
	int64_t pitch = 3 * (int64_t)j.width;
	const uint8_t *top = frame + 2 * y * pitch, *bottom = 2 * y + 1 < j.height ? top + pitch : top;
	uint32_t luma[4];
#pragma unroll
	for (int p = 0; p < 4; p++) {
		const uint8_t *at = (p < 2 ? top : bottom) + 3 * min(2 * x + p % 2, last);
		const uint8_t rgb[3] = {__ldg(at), __ldg(at + 1), __ldg(at + 2)};
		luma[p] = (uint32_t)(uint8_t)stk__jpeg_of_rgb(rgb, 0);
		sum[0] += stk__jpeg_of_rgb(rgb, 1);
		sum[1] += stk__jpeg_of_rgb(rgb, 2);
	}
	*(uint16_t *)(void *)&s.luma[2 * k][2 * i] = (uint16_t)(luma[0] | luma[1] << 8);
	*(uint16_t *)(void *)&s.luma[2 * k + 1][2 * i] = (uint16_t)(luma[2] | luma[3] << 8);
#pragma unroll
	for (int c = 0; c < 2; c++)
		s.chroma[c][k][i] = (uint8_t)((sum[c] + 1 + (x & 1)) >> 2);
}

/* A block of samples: where it lies in the tile, and in the plane. */
struct sample_block {
	const uint8_t *from; /* its first sample */
	int32_t pitch, plane, x, y;
};

static __device__ __forceinline__ sample_block find_block(const tile_samples &s, const tile_place &at, int32_t number)
{
	if (number < 16) {
		int32_t x = number % 8 * 8, y = number / 8 * 8;
		return {&s.luma[y][x], WIDTH, 0, at.x + x, at.y + y};
	}
	int32_t x = number % 4 * 8, c = number >= 20;
	return {&s.chroma[c][0][x], WIDTH / 2, 1 + c, at.x / 2 + x, at.y / 2};
}

/* Distorts a row, then a column of the block, then a row again: stk__jpeg_distort_block by eight threads. The table lies in shared memory, with the
 * item. Returns the thread's row of samples. */
static __device__ __forceinline__ uint2 distort_row(const uint8_t *samples, const uint8_t *quant, int32_t lane, int32_t *coefficients)
{
	uint2 word = *(const uint2 *)(const void *)samples;
	int32_t v[8], *row = coefficients + lane * PITCH, *column = coefficients + lane;
#pragma unroll
	for (int k = 0; k < 8; k++)
		v[k] = (int32_t)((k < 4 ? word.x : word.y) >> 8 * (k % 4) & 255) - 128;
	stk__jpeg_forward(v, 1, 2, 0, 11);
#pragma unroll
	for (int k = 0; k < 8; k++)
		row[k] = v[k];
	__syncwarp();
#pragma unroll
	for (int k = 0; k < 8; k++)
		v[k] = column[k * PITCH];
	stk__jpeg_forward(v, 1, 0, 2, 15);
#pragma unroll
	for (int k = 0; k < 8; k++)
		v[k] = stk__jpeg_quantise(v[k], quant[8 * k + lane]);
	stk__jpeg_inverse(v, 1, 11);
#pragma unroll
	for (int k = 0; k < 8; k++)
		column[k * PITCH] = v[k];
	__syncwarp();
#pragma unroll
	for (int k = 0; k < 8; k++)
		v[k] = row[k];
	stk__jpeg_inverse(v, 1, 18);
	uint32_t out[2];
#pragma unroll
	for (int k = 0; k < 2; k++)
		out[k] = stk__saturate_bytes(v[4 * k] + 128, v[4 * k + 1] + 128, v[4 * k + 2] + 128, v[4 * k + 3] + 128);
	return make_uint2(out[0], out[1]);
}

extern "C" __global__ void __launch_bounds__(STK_JPEG_TILE_THREADS) array_jpeg_samples(const __grid_constant__ stk_array_gpu_view v)
{
	__shared__ tile_samples s;
	const stk_array_gpu_item &it = share_item(v);
	const stk_jpeg_distortion &j = it.job.jpeg_distortion;
	tile_place at = find_tile(blockIdx.x - it.block0[v.launch], stk__jpeg_sample_tiles(&j), WIDTH, HEIGHT);
	const uint8_t *frame = it.job.src[0] + 3 * (int64_t)at.frame * j.height * j.width;
	for (int32_t i = (int32_t)threadIdx.x; i < WIDTH * HEIGHT / 4; i += STK_JPEG_TILE_THREADS) {
		int32_t k = i / (WIDTH / 2), column = i % (WIDTH / 2);
		make_samples(j, frame, at.x / 2 + column, at.y / 2 + k, column, k, s);
	}
	__syncthreads();
	int32_t number = (int32_t)threadIdx.x / 8, lane = (int32_t)threadIdx.x % 8;
	sample_block b = find_block(s, at, number);
	int32_t half = b.plane > 0;
	uint2 row = distort_row(b.from + lane * b.pitch, j.quant[half], lane, s.coefficients[number]);
	if (b.x < j.wide[half] && b.y < j.high[half]) {
		uint8_t *to = (uint8_t *)it.job.work + at.frame * stk__jpeg_frame(&j) +
			      (half ? stk__jpeg_plane(&j, 0) + (b.plane - 1) * stk__jpeg_plane(&j, 1) : 0);
		*(uint2 *)(void *)(to + (int64_t)(b.y + lane) * j.wide[half] + b.x) = row;
	}
}

extern "C" __global__ void __launch_bounds__(STK_ARRAY_GPU_THREADS) array_jpeg_pixels(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = share_item(v);
	const stk_jpeg_distortion j = it.job.jpeg_distortion;
	tile_place at = find_tile(blockIdx.x - it.block0[v.launch], stk__jpeg_pixel_tiles(&j), STK_JPEG_PIXEL_WIDTH, STK_JPEG_PIXEL_HEIGHT);
	const uint8_t *luma = (const uint8_t *)it.job.work + at.frame * stk__jpeg_frame(&j), *blue = luma + stk__jpeg_plane(&j, 0),
		      *red = blue + stk__jpeg_plane(&j, 1);
	int32_t x = min(at.x + (int32_t)(threadIdx.x % STK_JPEG_PIXEL_WIDTH), j.width - 1),
		end = min(at.y + STK_JPEG_PIXEL_HEIGHT, j.height);
	uint8_t *dst = it.job.dst + 3 * (int64_t)at.frame * j.height * j.width;
	for (int32_t y = at.y + (int32_t)(threadIdx.x / STK_JPEG_PIXEL_WIDTH); y < end; y += STK_ARRAY_GPU_THREADS / STK_JPEG_PIXEL_WIDTH) {
		uint8_t p[3];
		stk__jpeg_pixel(luma[(int64_t)y * j.wide[0] + x], stk__jpeg_chroma(&j, blue, x, y), stk__jpeg_chroma(&j, red, x, y), p);
		stk__store_rgb(dst + 3 * ((int64_t)y * j.width + at.x), (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16,
			j.width - at.x);
	}
}
