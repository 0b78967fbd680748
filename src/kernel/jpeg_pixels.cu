/* SPDX-License-Identifier: Apache-2.0
 * Phases 7 and 8 of kernel/jpegpar.h. */
#include "kernel/jpegpar_find.cuh"
#include "kernel/jpegpar_pixels.h"

/* Values of a block in shared memory: 64 of 16 bits, and as much between blocks as spreads the columns of four over the banks in zigzag order. */
#define PITCH 80

/* By column, where its coefficients are in zigzag order. */
static __constant__ __align__(8) uint8_t zigzag[64] = {0, 2, 3, 9, 10, 20, 21, 35, 1, 4, 8, 11, 19, 22, 34, 36, 5, 7, 12, 18, 23, 33, 37,
	48, 6, 13, 17, 24, 32, 38, 47, 49, 14, 16, 25, 31, 39, 46, 50, 57, 15, 26, 30, 40, 45, 51, 56, 58, 27, 29, 41, 44, 52, 55, 59, 62,
	28, 42, 43, 53, 54, 60, 61, 63};

/* What a block needs beside its coefficients: its DC coefficient, where its samples go, and its table in v.quant, in groups of 8. */
struct __align__(16) idct_block
{
	int32_t dc;
	uint32_t sample, pitch, quant;
};

/* What a warp has in shared memory: its blocks, and values of the four that it is at, by zigzag order and by column. */
struct __align__(16) idct_warp
{
	idct_block block[STK_JPEGPAR_IDCT_BLOCKS];
	int16_t zigzag[4][PITCH], column[4][PITCH];
};

/* No coefficient of the block is set below its first row. The threads of a warp call it together, each with its 8 coefficients, two a word. */
static __device__ __forceinline__ bool is_flat(uint4 c, uint32_t part)
{
	/* Of zigzag 0..7, 8..15 and 24..31, those in the first row are 0 1 5 6, 14 15 and 27 28. */
	if (part == 0)
		c.x = 0, c.z &= 0xffff, c.w &= 0xffff0000u;
	else if (part == 1)
		c.w = 0;
	else if (part == 3)
		c.y &= 0xffff, c.z &= 0xffff0000u;
	uint32_t set = __ballot_sync(~0u, (c.x | c.y | c.z | c.w) != 0);
	return (set >> (threadIdx.x % 32 & ~7u) & 0xff) == 0;
}

/* Two products, of the halves of both words, as far as they fit 16 bits. */
static __device__ __forceinline__ uint32_t multiply(uint32_t c, uint32_t q)
{
	return __byte_perm(c * q, (c >> 16) * (q >> 16), 0x5410);
}

static __device__ __forceinline__ uint4 multiply(uint4 c, uint4 q)
{
	return make_uint4(multiply(c.x, q.x), multiply(c.y, q.y), multiply(c.z, q.z), multiply(c.w, q.w));
}

static __device__ __forceinline__ idct_block find_block(const stk_jpegpar_view &v, const stk_jpegpar_image &im, uint32_t b)
{
	stk_jpegpar_block block = stk__jpegpar_block(&im, b);
	const stk_jpegpar_plane &plane = im.plane[block.component];
	return {v.dc[block.dc], block.sample, plane.pitch, 8 * plane.quant};
}

/* A column, from values in zigzag order: x[0] .. x[7] lie at `at` in shared memory. */
static __device__ __forceinline__ uint4 transform_column(const idct_warp *shared, const uint32_t at[8], uint4 coef, uint32_t part)
{
	int32_t x[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] = stk__forget(*(const int16_t *)((const char *)shared + at[i]));
	int32_t first = x[0];
	stk__jpegpar_idct8(x, 11);
	if (__any_sync(~0u, stk__jpegpar_wraps(first)) && is_flat(coef, part) && stk__jpegpar_wraps(first))
#pragma unroll
		for (int i = 0; i < 8; i++)
			x[i] = stk__jpegpar_wrap16(4 * first);
	return make_uint4(stk__saturate_shorts(x[0], x[1]), stk__saturate_shorts(x[2], x[3]), stk__saturate_shorts(x[4], x[5]),
		stk__saturate_shorts(x[6], x[7]));
}

/* A row of samples, from values that lie a column of 8 apart. */
static __device__ __forceinline__ uint2 transform_row(const int16_t *from)
{
	int32_t x[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] = stk__forget(from[8 * i]);
	stk__jpegpar_idct8(x, 18);
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] += 128;
	return make_uint2(stk__saturate_bytes(x[0], x[1], x[2], x[3]), stk__saturate_bytes(x[4], x[5], x[6], x[7]));
}

/* A warp takes IDCT_BLOCKS blocks, four at a time, with eight threads each: a thread dequantises 8 coefficients, then transforms a column, then a row. */
extern "C" __global__ void __launch_bounds__(32 * STK_JPEGPAR_IDCT_WARPS) jpeg_idct(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ idct_warp shared[STK_JPEGPAR_IDCT_WARPS];
	uint32_t lane = threadIdx.x % 32, part = lane % 8;
	uint32_t first = (blockIdx.x * STK_JPEGPAR_IDCT_WARPS + threadIdx.x / 32) * STK_JPEGPAR_IDCT_BLOCKS;
	if (first >= v.n_idct)
		return;
	idct_warp &warp = shared[threadIdx.x / 32];
	const stk_jpegpar_image &im = v.images[stk__jpegpar_find_warp(&v.images->idct0, sizeof *v.images, v.n_images, first)];
	first -= im.idct0;
	uint32_t count = min(im.idct - first, STK_JPEGPAR_IDCT_BLOCKS);
	warp.block[lane] = find_block(v, im, first + min(lane, count - 1));
	__syncwarp();

	/* Offsets in shared memory, kept in registers: of the thread's values as they are dequantised, as it takes them by column, and by row. */
	uint32_t values = (uint32_t)((char *)warp.zigzag[lane / 8] - (char *)shared), at[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		at[i] = stk__keep(values + 2 * zigzag[8 * part + i]);
	uint4 *group = (uint4 *)((char *)shared + stk__keep(values + 16 * part));
	const int16_t *row = (const int16_t *)((char *)shared + stk__keep(values + (uint32_t)sizeof warp.zigzag + 2 * part));
	const uint4 *coef = (const uint4 *)(v.coef + 64 * ((size_t)im.coef0 + first)) + lane, *quant = (const uint4 *)v.quant;
	for (uint32_t b = lane / 8; b - lane / 8 < count; b += 4, coef += 32) {
		idct_block block = warp.block[b];
		uint4 c = make_uint4(0, 0, 0, 0);
		if (b < count)
			c = __ldg(coef);
		if (part == 0)
			c.x = __byte_perm(c.x, block.dc, 0x3254);
		group[0] = multiply(c, __ldg(quant + (block.quant + part)));
		__syncwarp();
		group[sizeof warp.zigzag / sizeof *group] = transform_column(shared, at, c, part);
		__syncwarp();
		uint2 samples = transform_row(row);
		if (b < count)
			*(uint2 *)(v.planes + block.sample + part * block.pitch) = samples;
	}
}

static __device__ __forceinline__ void unpack(uint32_t word, int32_t out[4])
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		out[i] = word >> 8 * i & 255;
}

/* The rows of a component that a row of pixels is made from, and how. */
struct source {
	const uint8_t *near, *far;
	int32_t last; /* column */
	uint8_t upsample, odd;
};

static __device__ __forceinline__ source rows_of(const uint8_t *planes, const stk_jpegpar_plane &p, uint32_t y)
{
	bool tall = p.upsample == STK_JPEG_UP_H2V2 || p.upsample == STK_JPEG_UP_H1V2;
	int32_t near = tall ? y >> 1 : y, far = min(max(y & 1 ? near + 1 : near - 1, 0), (int32_t)p.height - 1);
	source s = {planes + p.at + (size_t)near * p.pitch, planes + p.at + (size_t)far * p.pitch, (int32_t)p.width - 1,
		(uint8_t)p.upsample, (uint8_t)(y & 1)};
	return s;
}

/* stk__jpegpar_sample for the pixels x .. x + 3 of the row, but for REPLICATE; x is a multiple of 4. */
static __device__ __forceinline__ void sample4(const source &s, uint32_t x, int32_t out[4])
{
	if (s.upsample == STK_JPEG_UP_NONE) {
		unpack(*(const uint32_t *)(s.near + x), out);
		return;
	}
	if (s.upsample == STK_JPEG_UP_H1V2) {
		int32_t other[4];
		unpack(*(const uint32_t *)(s.near + x), out);
		unpack(*(const uint32_t *)(s.far + x), other);
#pragma unroll
		for (int i = 0; i < 4; i++)
			out[i] = (3 * out[i] + other[i] + (s.odd ? 2 : 1)) >> 2;
		return;
	}
	/* Two columns of samples lie under the pixels; one more on each side is mixed in. */
	int32_t c = x >> 1, left = max(c - 1, 0), right = min(c + 1, s.last), beyond = min(c + 2, s.last), t[4];
	t[0] = s.near[left], t[1] = s.near[c], t[2] = s.near[right], t[3] = s.near[beyond];
	if (s.upsample == STK_JPEG_UP_H2V1) {
		out[0] = (3 * t[1] + t[0] + 1) >> 2;
		out[1] = (3 * t[1] + t[2] + 2) >> 2;
		out[2] = (3 * t[2] + t[1] + 1) >> 2;
		out[3] = (3 * t[2] + t[3] + 2) >> 2;
		return;
	}
	t[0] = 3 * t[0] + s.far[left], t[1] = 3 * t[1] + s.far[c], t[2] = 3 * t[2] + s.far[right], t[3] = 3 * t[3] + s.far[beyond];
	out[0] = (3 * t[1] + t[0] + 8) >> 4;
	out[1] = (3 * t[1] + t[2] + 7) >> 4;
	out[2] = (3 * t[2] + t[1] + 8) >> 4;
	out[3] = (3 * t[2] + t[3] + 7) >> 4;
}

/* Four pixels as they lie in memory, twelve bytes. */
static __device__ __forceinline__ void pack(const uint32_t pixel[4], uint32_t *to)
{
	to[0] = pixel[0] | pixel[1] << 24;
	to[1] = pixel[1] >> 8 | pixel[2] << 16;
	to[2] = pixel[2] >> 16 | pixel[3] << 8;
}

/* RGB or BGR pixels first .. end - 1 of a row, by a warp, four a thread; where every component has one of the common ways. */
static __device__ __forceinline__ void color_row(
	const uint8_t *planes, const stk_jpegpar_image &im, uint32_t y, uint32_t first, uint32_t end, uint32_t *out)
{
	const uint32_t color = im.color;
	const bool bgr = im.type == STK_BGR;
	source s[3];
#pragma unroll
	for (int c = 0; c < 3; c++)
		s[c] = rows_of(planes, im.plane[color == STK_JPEG_GRAY ? 0 : c], y);
	for (uint32_t x = first + 4 * (threadIdx.x % 32); x < end; x += 128) {
		int32_t a[4], b[4], c[4];
		uint32_t pixel[4];
		sample4(s[0], x, a);
		sample4(s[1], x, b);
		sample4(s[2], x, c);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t rgb[3];
			stk__jpegpar_convert(color, a[i], b[i], c[i], rgb);
			pixel[i] = bgr ? rgb[2] | rgb[1] << 8 | rgb[0] << 16 : rgb[0] | rgb[1] << 8 | rgb[2] << 16;
		}
		pack(pixel, out + (x - first) / 4 * 3);
	}
}

/* The same, pixel by pixel, for other types, factors of 3 and 4 and other rarities. */
static __device__ __noinline__ void color_row_slowly(
	const uint8_t *planes, const stk_jpegpar_image &im, uint32_t y, uint32_t first, uint32_t end, uint32_t *out)
{
	for (uint32_t x = first + 4 * (threadIdx.x % 32); x < end; x += 128) {
		uint32_t pixel[4];
		for (int i = 0; i < 4; i++) {
			uint32_t rgb[3];
			stk__jpegpar_rgb(planes, &im, min(x + i, end - 1), y, rgb);
			pixel[i] = stk__jpegpar_pixel(im.type, rgb);
		}
		if (im.channels == 1)
			out[(x - first) / 4] = pixel[0] & 255 | (pixel[1] & 255) << 8 | (pixel[2] & 255) << 16 | pixel[3] << 24;
		else
			pack(pixel, out + (x - first) / 4 * 3);
	}
}

extern "C" __global__ void __launch_bounds__(32 * STK_JPEGPAR_COLOR_ROWS) jpeg_color(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ uint32_t image;
	uint32_t first_row = blockIdx.x * STK_JPEGPAR_COLOR_ROWS;
	if (threadIdx.x == 0)
		image = stk__jpegpar_find(&v.images->row0, sizeof *v.images, v.n_images, first_row);
	__syncthreads();
	const stk_jpegpar_image &im = v.images[image];
	uint32_t line = first_row + threadIdx.x / 32 - im.row0;
	if (line >= im.h)
		return;
	uint32_t *out = (uint32_t *)(v.rgb + im.rgb + (size_t)line * im.rgb_pitch);
	bool rare = im.type != STK_RGB && im.type != STK_BGR;
	for (uint32_t c = 0; c < im.components; c++)
		rare |= im.plane[c].upsample == STK_JPEG_UP_REPLICATE;
	if (rare)
		color_row_slowly(v.planes, im, im.y + line, im.x & ~3u, im.x + im.w, out);
	else
		color_row(v.planes, im, im.y + line, im.x & ~3u, im.x + im.w, out);
}
