/* SPDX-License-Identifier: Apache-2.0
 * JPEG distortion on the GPU, tile by tile (kernel/jpeg_distortion/jpeg_distortion_tile.h), with the arithmetic of jpeg_distortion_element.h. */
#include "kernel/common/pixels.cuh"
#include "kernel/common/span.cuh"
#include "kernel/job/job_find.cuh"
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"
#include "kernel/jpeg_distortion/jpeg_distortion_tile.h"

#define WIDTH STK_JPEG_TILE_WIDTH
#define HEIGHT STK_JPEG_TILE_HEIGHT
#define BLOCKS (STK_JPEG_TILE_THREADS / 8)
#define PITCH 9 /* words in a row of coefficients, so that lanes that read rows or columns access different banks */

/* A thread block's tile: its frame, and the position in the frame of its first pixel. */
struct tile_place {
	uint32_t frame;
	int32_t x, y;
};

static __device__ __forceinline__ tile_place find_tile(uint32_t block, stk_jpeg_tiles t, int32_t width, int32_t height)
{
	uint32_t row = block / t.across, frame = row / t.down;
	return {frame, (int32_t)(block - row * t.across) * width, (int32_t)(row - frame * t.down) * height};
}

/* The samples of luma and of both chroma planes that a thread block makes, and the coefficients of their blocks. */
struct tile_samples {
	__align__(8) uint8_t luma[HEIGHT][WIDTH];
	__align__(8) uint8_t chroma[2][HEIGHT / 2][WIDTH / 2];
	int32_t coefficients[BLOCKS][8 * PITCH];
	float2 step[2][64]; /* [0: luma, 1: chroma][coefficient]: {1 / (8 * q), q} for the quantisation step q */
};

/* Computes the steps once for all blocks of a thread block. The reciprocal may be a little too large, but never too small. */
static __device__ __forceinline__ void make_steps(const stk_jpeg_distortion &j, tile_samples &s)
{
	int32_t i = (int32_t)threadIdx.x;
	if (i >= 128)
		return;
	float step = (float)j.quant[i / 64][i % 64];
	s.step[i / 64][i % 64] = make_float2(__uint_as_float(__float_as_uint(1 / (8 * step)) + 1), step);
}

/* Returns x quantised as stk__jpeg_quantise does, but without a division. step: an element of tile_samples.step. Coefficients have fewer than 16 bits. So
 * the error of the reciprocal and of rounding, 2^-22 of the quotient, is too small to move a quotient across an integer. */
static __device__ __forceinline__ int32_t quantise(int32_t x, float2 step)
{
	float value = (float)x, multiple = __fadd_rd(__fmaf_rn(fabsf(value), step.x, 0.5f), 0x1p23f) - 0x1p23f;
	return __float_as_int(__fmaf_rn(copysignf(multiple, value), step.y, 0x1.8p23f)) - 0x4b400000; /* the bits of 0x1.8p23f */
}

/* Makes the samples of 2 x 2 pixels. Their common chroma sample is at (x, y) of the frame's chroma planes and at (i, k) of the tile's. */
static __device__ __forceinline__ void make_samples(
	const stk_jpeg_distortion &j, const uint8_t *frame, int32_t x, int32_t y, int32_t i, int32_t k, tile_samples &s)
{
	if (y > (j.height - 1) / 2) { /* below the image, where luma and colours repeat different rows */
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

/* Makes the samples of 4 x 2 pixels inside the frame, from pixel (2 * i, 2 * k) of the tile on; i is even. top: address of this pixel. */
static __device__ __forceinline__ void make_samples_inside(
	const stk_jpeg_distortion &j, const uint8_t *top, int32_t i, int32_t k, tile_samples &s)
{
	int32_t sum[2][2] = {};
#pragma unroll
	for (int r = 0; r < 2; r++) {
		uint32_t word[3], luma = 0;
		stk__span_align(stk__span_of<12>(top + r * 3 * (int64_t)j.width), word);
#pragma unroll
		for (int p = 0; p < 4; p++) {
			uint8_t rgb[3];
#pragma unroll
			for (int c = 0; c < 3; c++)
				rgb[c] = (uint8_t)(word[(3 * p + c) / 4] >> 8 * ((3 * p + c) % 4));
			luma |= (uint32_t)stk__jpeg_of_rgb(rgb, 0) << 8 * p;
			sum[0][p / 2] += stk__jpeg_of_rgb(rgb, 1);
			sum[1][p / 2] += stk__jpeg_of_rgb(rgb, 2);
		}
		*(uint32_t *)(void *)&s.luma[2 * k + r][2 * i] = luma;
	}
#pragma unroll
	for (int c = 0; c < 2; c++)
		*(uint16_t *)(void *)&s.chroma[c][k][i] = (uint16_t)((sum[c][0] + 1) >> 2 | (sum[c][1] + 2) >> 2 << 8);
}

/* A block of samples, and its position in the plane. */
struct sample_block {
	const uint8_t *from; /* address of its first sample */
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

/* Distorts a block as stk__jpeg_distort_block does, with eight threads, numbered by `lane`: each processes its row (`samples`), then a column, then a row
 * again. Returns the thread's row of samples. coefficients: shared memory for the block. */
static __device__ __forceinline__ uint2 distort_row(const uint8_t *samples, const float2 *step, int32_t lane, int32_t *coefficients)
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
		v[k] = quantise(v[k], step[8 * k + lane]);
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

extern "C" __global__ void __launch_bounds__(STK_JPEG_TILE_THREADS) job_jpeg_samples(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ tile_samples s;
	const stk_job_gpu_item &it = share_item(v);
	const stk_jpeg_distortion &j = STK_PARAMS(stk_jpeg_distortion, &it.job);
	tile_place at = find_tile(blockIdx.x - it.block0[v.launch], stk__jpeg_sample_tiles(&j), WIDTH, HEIGHT);
	const uint8_t *frame = it.job.src[0] + 3 * (int64_t)at.frame * j.height * j.width;
	make_steps(j, s);
	for (int32_t i = 2 * (int32_t)threadIdx.x; i < WIDTH * HEIGHT / 4; i += 2 * STK_JPEG_TILE_THREADS) {
		int32_t k = i / (WIDTH / 2), column = i % (WIDTH / 2), x = at.x + 2 * column, y = at.y + 2 * k;
		if (x + 3 < j.width && y + 1 < j.height) {
			make_samples_inside(j, frame + 3 * ((int64_t)y * j.width + x), column, k, s);
			continue;
		}
		for (int32_t p = 0; p < 2; p++)
			make_samples(j, frame, x / 2 + p, y / 2, column + p, k, s);
	}
	__syncthreads();
	int32_t number = (int32_t)threadIdx.x / 8, lane = (int32_t)threadIdx.x % 8;
	sample_block b = find_block(s, at, number);
	int32_t half = b.plane > 0;
	uint2 row = distort_row(b.from + lane * b.pitch, s.step[half], lane, s.coefficients[number]);
	if (b.x < j.wide[half] && b.y < j.high[half]) {
		uint8_t *to = (uint8_t *)it.job.work + at.frame * stk__jpeg_frame(&j) +
			      (half ? stk__jpeg_plane(&j, 0) + (b.plane - 1) * stk__jpeg_plane(&j, 1) : 0);
		*(uint2 *)(void *)(to + (int64_t)(b.y + lane) * j.wide[half] + b.x) = row;
	}
}

/* ---- pixels ---- */

/* The planes of a frame, and the address of its output pixels. */
struct frame_planes {
	const uint8_t *luma, *chroma[2];
	uint8_t *dst;
};

/* Makes the pixels of rows y and y + 1 from column x on, of an image of at most four columns. */
static __device__ __noinline__ void make_narrow(const stk_jpeg_distortion &j, const frame_planes &f, int32_t x, int32_t y)
{
	for (int32_t k = y; k < min(y + 2, j.height); k++)
		for (int32_t i = x; i < j.width; i++)
			stk__jpeg_pixel(f.luma[(int64_t)k * j.wide[0] + i], stk__jpeg_chroma(&j, f.chroma[0], i, k),
				stk__jpeg_chroma(&j, f.chroma[1], i, k), f.dst + 3 * ((int64_t)k * j.width + i));
}

/* Loads six samples of a row of chroma: those of columns x - 1 to x + 4. wide: number of samples in the row. Outside of the row, the outermost sample is
 * repeated. */
static __device__ __forceinline__ void load_columns(const uint8_t *row, int32_t x, int32_t wide, int32_t (&sample)[6])
{
	uint32_t word = __ldg((const uint32_t *)(const void *)(row + x));
#pragma unroll
	for (int i = 0; i < 4; i++)
		sample[1 + i] = (int32_t)(word >> 8 * i & 255);
	sample[0] = x ? __ldg(row + x - 1) : sample[1];
	sample[5] = __ldg(row + min(x + 4, wide - 1));
}

/* Computes the chroma of eight pixels of a row like stk__jpeg_chroma. Right of the image, the last sample is repeated. last: index in near and far of the last
 * sample inside the image. */
static __device__ __forceinline__ void mix_chroma(const int32_t (&near)[6], const int32_t (&far)[6], int32_t last, int32_t (&mixed)[8])
{
	int32_t own[6];
#pragma unroll
	for (int i = 0; i < 6; i++)
		own[i] = 3 * near[i] + far[i];
	if (last < 5)
#pragma unroll
		for (int i = 1; i < 6; i++)
			own[i] = i > last ? own[i - 1] : own[i];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		mixed[2 * i] = (3 * own[i + 1] + own[i] + 8) >> 4;
		mixed[2 * i + 1] = (3 * own[i + 1] + own[i + 2] + 7) >> 4;
	}
}

/* Stores the first n of eight RGB pixels, or all eight if n is larger. All eight are stored as words or pairs of words if the address is aligned. */
static __device__ __forceinline__ void store_eight(uint8_t *to, const uint32_t (&word)[6], int32_t n)
{
	if (n >= 8 && ((uintptr_t)to & 7) == 0) {
#pragma unroll
		for (int k = 0; k < 3; k++)
			((uint2 *)(void *)to)[k] = make_uint2(word[2 * k], word[2 * k + 1]);
		return;
	}
	if (n >= 8 && ((uintptr_t)to & 3) == 0) {
#pragma unroll
		for (int k = 0; k < 6; k++)
			((uint32_t *)(void *)to)[k] = word[k];
		return;
	}
#pragma unroll
	for (int k = 0; k < 24; k++)
		if (k < 3 * n)
			to[k] = (uint8_t)(word[k / 4] >> 8 * (k % 4));
}

/* Computes eight pixels of a row with the arithmetic of stk__jpeg_pixel, and stores the first n of them, at most eight. */
static __device__ __forceinline__ void make_row(
	const uint2 &luma, const int32_t (&blue)[8], const int32_t (&red)[8], uint8_t *to, int32_t n)
{
	int32_t value[24];
#pragma unroll
	for (int i = 0; i < 8; i++) {
		int32_t y = (int32_t)((i < 4 ? luma.x : luma.y) >> 8 * (i % 4) & 255), cb = blue[i] - 128, cr = red[i] - 128;
		value[3 * i] = y + ((91881 * cr + 32768) >> 16);
		value[3 * i + 1] = y + ((-22554 * cb - 46802 * cr + 32768) >> 16);
		value[3 * i + 2] = y + ((116130 * cb + 32768) >> 16);
	}
	uint32_t word[6];
#pragma unroll
	for (int k = 0; k < 6; k++)
		word[k] = stk__saturate_bytes(value[4 * k], value[4 * k + 1], value[4 * k + 2], value[4 * k + 3]);
	store_eight(to, word, n);
}

/* Makes the pixels of tiles. Each thread makes eight pixels in each of two rows; both rows have the same nearest samples of chroma. */
extern "C" __global__ void __launch_bounds__(STK_JOB_THREADS) job_jpeg_pixels(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	const stk_jpeg_distortion &j = STK_PARAMS(stk_jpeg_distortion, &it.job);
	tile_place at = find_tile(blockIdx.x - it.block0[v.launch], stk__jpeg_pixel_tiles(&j), STK_JPEG_PIXEL_WIDTH, STK_JPEG_PIXEL_HEIGHT);
	const int32_t threads_per_row = STK_JPEG_PIXEL_WIDTH / 8;
	int32_t x = at.x + 8 * (int32_t)(threadIdx.x % threads_per_row), y = at.y + 2 * (int32_t)(threadIdx.x / threads_per_row),
		column = x / 2, row = y / 2;
	if (x >= j.width || y >= j.height)
		return;
	const uint8_t *work = (const uint8_t *)it.job.work + at.frame * stk__jpeg_frame(&j), *chroma = work + stk__jpeg_plane(&j, 0);
	frame_planes f = {work, {chroma, chroma + stk__jpeg_plane(&j, 1)}, it.job.dst + 3 * (int64_t)at.frame * j.height * j.width};
	if (j.width <= 4) {
		make_narrow(j, f, x, y);
		return;
	}
	int32_t wide = j.wide[1], last = (j.width - 1) / 2 - column + 1, mixed[2][2][8]; /* mixed is indexed by row, then plane */
	int64_t above = (int64_t)max(row - 1, 0) * wide, own = (int64_t)row * wide,
		below = (int64_t)min(row + 1, (j.height - 1) / 2) * wide;
#pragma unroll
	for (int c = 0; c < 2; c++) {
		int32_t near[6], far[2][6];
		load_columns(f.chroma[c] + own, column, wide, near);
		load_columns(f.chroma[c] + above, column, wide, far[0]);
		load_columns(f.chroma[c] + below, column, wide, far[1]);
		mix_chroma(near, far[0], last, mixed[0][c]);
		mix_chroma(near, far[1], last, mixed[1][c]);
	}
#pragma unroll
	for (int k = 0; k < 2; k++)
		if (y + k < j.height)
			make_row(__ldg((const uint2 *)(const void *)(f.luma + (int64_t)(y + k) * j.wide[0] + x)), mixed[k][0], mixed[k][1],
				f.dst + 3 * ((int64_t)(y + k) * j.width + x), j.width - x);
}
