/* SPDX-License-Identifier: Apache-2.0
 * Makes tiles of interleaved images whose pixels are read at computed positions of another image. kernel/sample and kernel/pass use it. A warp of threads
 * makes 32 pixels in each of a few rows. Bytes of several channels are read in words. The reads of all rows are issued before the warp waits for the first.
 * If all positions of these rows lie well inside the source, borders are not checked. If the border repeats the outermost pixels, positions are clamped to
 * the source. Otherwise a row whose positions are all outside may get the fill value, and a function of the caller makes the pixels of the remaining rows. */
#ifndef STK_KERNEL_TEXELS_CUH
#define STK_KERNEL_TEXELS_CUH

#include "kernel/common/pixels.cuh"
#include "kernel/common/texels.h"

/* The image that pixels are read from; stk__texel_fits (texels.h) must be true for it. */
struct stk_texel_source {
	const uint8_t *pixel; /* address of pixel (0, 0) */
	int32_t row, w, h;    /* row: bytes from one row to the next */
	int32_t begin, end;   /* columns begin .. end - 1 are in memory */
	bool fills;           /* true if positions that read only pixels outside of the image give exactly the fill value */
	bool clamps;          /* true if a position outside of the image reads the nearest pixel inside */
};

/* A pixel of C channels, as it is stored. Bytes are packed into a word, the first in the lowest byte, with undefined upper bytes. Floats are an array. */
template <typename T, int C> struct stk_texel {
	T value[C];
};
template <int C> struct stk_texel<uint8_t, C> {
	uint32_t word;
};

/* The rows of the output image, and the tile that a thread block makes of it: rows y0 to y1 - 1, from column x0 on. A row may begin a few pixels further
 * left, so that its words are aligned. */
struct stk_texel_tile {
	uint8_t *dst; /* address of pixel (0, 0) */
	int32_t pitch, width, x0, y0, y1;
	bool whole;    /* each row has 32 pixels, one for each lane of the warp */
	float *turn;   /* shared memory, 16-byte aligned: 4 * 32 floats for each warp; used if pixels are several floats */
	uint32_t left; /* the lane that holds the first of the two pixels in this lane's word of RGB */
	uint32_t pick; /* byte selector (__byte_perm) that takes this lane's word from the pixel of lane `left` and the pixel after it */
};

/* ---- reads at positions inside the image ---- */

/* Returns true if pixels are read in words, which include bytes of adjacent pixels: bytes with more than one channel. */
template <typename T, int C> static __device__ constexpr bool stk__texel_words()
{
	return sizeof(T) == 1 && C > 1;
}

/* Returns true only if all pixels from which position (x, y) is interpolated are in the image and in memory; and, if pixels are read in words, also one pixel
 * to the left of these and two to the right. x, y: the position, minus 0.5 if LINEAR, so that its integer part is the upper left of these pixels. Returns false
 * for NaN. */
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ bool stk__texel_inside(const stk_texel_source &s, float x, float y)
{
	constexpr int32_t before = stk__texel_words<T, C>(), after = before ? 2 + LINEAR : LINEAR;
	return x >= (float)(s.begin + before) && x < (float)(s.end - after) && y >= 0 && y < (float)(s.h - LINEAR);
}

/* Returns true if no pixel that position (x, y) is interpolated from is inside the image, and both coordinates are within 1e6 pixels of 0; for larger
 * ones, plain conversions do not give floor and fraction. */
template <bool LINEAR> static __device__ __forceinline__ bool stk__texel_outside(const stk_texel_source &s, float x, float y)
{
	const float far = 1e6f, before = LINEAR ? -1 : 0;
	bool outside = x < before || x >= (float)s.w || y < before || y >= (float)s.h;
	return outside && x > -far && x < far && y > -far && y < far;
}

/* Returns whether position (x, y) is so close to the origin that plain conversions give its floor and fraction. Returns false for NaN. */
static __device__ __forceinline__ bool stk__texel_near(float x, float y)
{
	return fabsf(x) + fabsf(y) < 1e6f;
}

/* The data that are read for one output pixel: values in the order of rows, or words. They are used only after the reads of all pixels have been issued. */
template <typename T, int C, bool LINEAR, bool WORDS> struct stk_texel_patch {
	T value[1 + LINEAR][(1 + LINEAR) * C];
};
template <typename T, int C, bool LINEAR> struct stk_texel_patch<T, C, LINEAR, true> {
	uint32_t word[1 + LINEAR][2 + LINEAR], shift[1 + LINEAR]; /* shift, modulo 32: number of bits in the first word before the pixel */
};

template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ void stk__texel_load(
	const stk_texel_source &s, int32_t x, int32_t y, stk_texel_patch<T, C, LINEAR, false> &p)
{
	int32_t at = y * s.row + x * (C * (int32_t)sizeof(T));
#pragma unroll
	for (int r = 0; r < 1 + LINEAR; r++, at += s.row)
#pragma unroll
		for (int i = 0; i < (1 + LINEAR) * C; i++)
			p.value[r][i] = __ldg((const T *)(const void *)(s.pixel + at) + i);
}

template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ void stk__texel_load(
	const stk_texel_source &s, int32_t x, int32_t y, stk_texel_patch<T, C, LINEAR, true> &p)
{
	int32_t before = (int32_t)((uintptr_t)s.pixel & 3), at = y * s.row + (x * C + before);
	const uint8_t *words = s.pixel - before;
#pragma unroll
	for (int r = 0; r < 1 + LINEAR; r++, at += s.row) {
		p.shift[r] = (uint32_t)at << 3;
#pragma unroll
		for (int i = 0; i < 2 + LINEAR; i++)
			p.word[r][i] = __ldg((const uint32_t *)(const void *)(words + (at & ~3)) + i);
	}
}

/* ---- reads at any position, clamped to the image ---- */

template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ void stk__texel_load_clamped(
	const stk_texel_source &s, int32_t x, int32_t y, stk_texel_patch<T, C, LINEAR, false> &p)
{
#pragma unroll
	for (int r = 0; r < 1 + LINEAR; r++)
#pragma unroll
		for (int i = 0; i < 1 + LINEAR; i++) {
			int32_t at = max(min(y + r, s.h - 1), 0) * s.row + max(min(x + i, s.w - 1), 0) * (C * (int32_t)sizeof(T));
#pragma unroll
			for (int c = 0; c < C; c++)
				p.value[r][i * C + c] = __ldg((const T *)(const void *)(s.pixel + at) + c);
		}
}

/* Loads the words that contain the pixels of position (x, y), clamped to the image. Reads no other words, so nothing is read outside of the image's
 * memory. */
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ void stk__texel_load_clamped(
	const stk_texel_source &s, int32_t x, int32_t y, stk_texel_patch<T, C, LINEAR, true> &p)
{
	constexpr int32_t last = (1 + LINEAR) * C - 1;
	int32_t before = (int32_t)((uintptr_t)s.pixel & 3), left = max(min(x, s.w - 1 - LINEAR), 0) * C + before;
	const uint8_t *words = s.pixel - before;
#pragma unroll
	for (int r = 0; r < 1 + LINEAR; r++) {
		int32_t at = max(min(y + r, s.h - 1), 0) * s.row + left;
		p.shift[r] = (uint32_t)at << 3;
#pragma unroll
		for (int i = 0; i < 2 + LINEAR; i++)
			p.word[r][i] = __ldg((const uint32_t *)(const void *)(words + (min((at & ~3) + 4 * i, at + last) & ~3)));
	}
}

/* Changes the data read at column x to the pixels of columns x and x + 1. If one of them is outside of the image, both become the outermost pixel of the row at
 * that end. Does nothing if the data are not words or without LINEAR, since pixels were then read from clamped positions. */
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ void stk__texel_clamp(const stk_texel_source &, int32_t, stk_texel_patch<T, C, LINEAR, false> &)
{
}
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ void stk__texel_clamp(const stk_texel_source &s, int32_t x, stk_texel_patch<T, C, LINEAR, true> &p)
{
	if (!LINEAR)
		return;
	uint32_t first = 0x3210, second = 0x7654; /* byte selectors: 0 to 3 are bytes of `low`, 4 to 7 of `high` */
	if (x < 0) {
		first = C == 3 ? 0x0210 : 0x3210;
		second = C == 3 ? 0x0021 : 0x3210;
	} else if (x > s.w - 2) {
		first = C == 3 ? 0x3543 : 0x7654;
		second = C == 3 ? 0x0054 : 0x7654;
	}
#pragma unroll
	for (int r = 0; r < 1 + LINEAR; r++) {
		uint32_t low = __funnelshift_r(p.word[r][0], p.word[r][1], p.shift[r]);
		uint32_t high = __funnelshift_r(p.word[r][1], p.word[r][1 + LINEAR], p.shift[r]);
		p.word[r][0] = __byte_perm(low, high, first);
		p.word[r][1] = __byte_perm(low, high, second);
		p.shift[r] = 0;
	}
}

/* ---- conversion and interpolation ---- */

/* Returns value `at` of row r of the patch. A row consists of the channels of the left pixel, then those of the right pixel. */
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ float stk__texel_value(const stk_texel_patch<T, C, LINEAR, false> &p, int r, int at)
{
	return (float)p.value[r][at];
}
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ float stk__texel_value(const stk_texel_patch<T, C, LINEAR, true> &p, int r, int at)
{
	uint32_t four = __funnelshift_r(p.word[r][at / 4], p.word[r][at / 4 + 1], p.shift[r]);
	if (at % 4 == 0 || at % 4 == 3) /* conversions have a unit of their own; bytes 1 and 2 use arithmetic, so that both units work */
		return (float)(at % 4 ? four >> 24 : four & 255);
	return __uint_as_float(__byte_perm(four, 0x4b000000, 0x7440 + at % 4)) - 0x1p23f;
}

/* Rounds a value from 0 to 255 to the nearest integer, halves up, and returns it in the lowest byte; the other bytes are undefined. Both sums are rounded down:
 * rounded to nearest, the first sum could reach a whole number that is larger than the exact sum; the second puts the integer part into the lowest byte. */
static __device__ __forceinline__ uint32_t stk__texel_byte(float x)
{
	return __float_as_uint(__fadd_rd(__fadd_rd(x, 0.5f), 0x1p23f));
}

template <int C> static __device__ __forceinline__ void stk__texel_pack(const float (&value)[C], stk_texel<uint8_t, C> &to)
{
	uint32_t byte[4];
#pragma unroll
	for (int c = 0; c < 4; c++)
		byte[c] = c < C ? stk__texel_byte(value[c]) : 0;
	to.word = C == 1 ? byte[0] : __byte_perm(byte[0], byte[1], 0x0040);
	if (C > 2)
		to.word = __byte_perm(to.word, C == 3 ? byte[2] : __byte_perm(byte[2], byte[3], 0x0040), 0x5410);
}
template <int C> static __device__ __forceinline__ void stk__texel_pack(const float (&value)[C], stk_texel<float, C> &to)
{
#pragma unroll
	for (int c = 0; c < C; c++)
		to.value[c] = value[c];
}

/* Returns the patch's pixel, or with LINEAR the one interpolated along x, then along y, as on the CPU. qx, qy: fractions of the position. */
template <typename T, int C, bool LINEAR>
static __device__ __forceinline__ stk_texel<T, C> stk__texel_mix(
	const stk_texel_patch<T, C, LINEAR, stk__texel_words<T, C>()> &p, float qx, float qy)
{
	stk_texel<T, C> made;
	if constexpr (!LINEAR && stk__texel_words<T, C>()) {
		made.word = __funnelshift_r(p.word[0][0], p.word[0][1], p.shift[0]);
	} else if constexpr (!LINEAR && sizeof(T) == 1) {
		made.word = p.value[0][0];
	} else if constexpr (!LINEAR) {
#pragma unroll
		for (int c = 0; c < C; c++)
			made.value[c] = p.value[0][c];
	} else {
		float value[C];
#pragma unroll
		for (int c = 0; c < C; c++) {
			float px = 1 - qx, top = stk__texel_value(p, 0, c) * px + stk__texel_value(p, 0, c + C) * qx;
			float bottom = stk__texel_value(p, 1, c) * px + stk__texel_value(p, 1, c + C) * qx;
			value[c] = top + (bottom - top) * qy;
		}
		stk__texel_pack(value, made);
	}
	return made;
}

/* ---- stores ---- */

/* Stores a warp's pixels. to: address of lane 0's pixel. Lanes begin .. end - 1 have pixels in the image; in a whole tile all lanes do. RGB of a whole
 * tile is stored in aligned words, each of which has bytes from two lanes. */
static __device__ __forceinline__ void stk__texel_store(
	const stk_texel_tile &tile, uint8_t *to, stk_texel<uint8_t, 3> t, int32_t begin, int32_t end)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	if (tile.whole) {
		uint32_t left = __shfl_sync(~0u, t.word, tile.left), right = __shfl_sync(~0u, t.word, tile.left + 1);
		if (lane < 24)
			((uint32_t *)(void *)to)[lane] = __byte_perm(left, right, tile.pick);
	} else if (lane >= begin && lane < end) {
		to += 3 * lane;
		to[0] = (uint8_t)t.word;
		to[1] = (uint8_t)(t.word >> 8);
		to[2] = (uint8_t)(t.word >> 16);
	}
}

template <int C>
static __device__ __forceinline__ void stk__texel_store(
	const stk_texel_tile &, uint8_t *to, stk_texel<uint8_t, C> t, int32_t begin, int32_t end)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	if (lane < begin || lane >= end)
		return;
	to += C * lane;
	if (C == 4 && ((uintptr_t)to & 3) == 0) {
		*(uint32_t *)(void *)to = t.word;
		return;
	}
#pragma unroll
	for (int c = 0; c < C; c++)
		to[c] = (uint8_t)(t.word >> 8 * c);
}

static __device__ __forceinline__ void stk__texel_store(
	const stk_texel_tile &, uint8_t *to, const stk_texel<float, 1> &t, int32_t begin, int32_t end)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	if (lane >= begin && lane < end)
		((float *)(void *)to)[lane] = t.value[0];
}

/* Stores a warp's pixels of several floats, through shared memory, so that neighbouring addresses are stored together. Arguments: as for the function above,
 * which stores RGB. */
template <int C>
static __device__ __forceinline__ void stk__texel_store(
	const stk_texel_tile &tile, uint8_t *to, const stk_texel<float, C> &t, int32_t begin, int32_t end)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	float *out = (float *)(void *)to, *turn = tile.turn + threadIdx.x / 32 * 128;
#pragma unroll
	for (int c = 0; c < C; c++)
		turn[C * lane + c] = t.value[c];
	__syncwarp();
	if (tile.whole && ((uintptr_t)to & 15) == 0) {
		if (lane < 8 * C)
			((float4 *)(void *)to)[lane] = ((const float4 *)(const void *)turn)[lane];
	} else {
#pragma unroll
		for (int c = 0; c < C; c++) {
			int32_t i = 32 * c + lane;
			if (i >= C * begin && i < C * end)
				out[i] = turn[i];
		}
	}
	__syncwarp();
}

/* ---- tiles ---- */

/* Returns tile number `block` of the image at `dst`. aligned: true if all rows begin at a multiple of 4 bytes; turn: as in stk_texel_tile. */
static __device__ __forceinline__ stk_texel_tile stk__texel_tile_of(
	uint8_t *dst, int64_t pitch, int32_t width, int32_t height, bool aligned, uint32_t block, float *turn)
{
	uint32_t across = stk__texel_across(aligned, width), down = block / across, lane = threadIdx.x % 32, left = 4 * lane / 3;
	int32_t x0 = (int32_t)(block - down * across) * STK_TEXEL_WIDTH, y0 = (int32_t)down * STK_TEXEL_ROWS;
	bool whole = x0 + STK_TEXEL_WIDTH <= width && (x0 > 0 || aligned);
	const uint32_t pick = 4 * lane - 3 * left == 0 ? 0x4210 : 4 * lane - 3 * left == 1 ? 0x5421 : 0x6542;
	return {dst, (int32_t)pitch, width, x0, y0, min(y0 + STK_TEXEL_ROWS, height), whole, turn, left, stk__keep(pick)};
}

/* Returns the column of the first pixel that a warp makes in row y; negative if it is left of the image. */
template <typename T, int C> static __device__ __forceinline__ int32_t stk__texel_begin(const stk_texel_tile &t, int32_t y)
{
	uint32_t at = (uint32_t)(uintptr_t)t.dst + (uint32_t)(y * t.pitch);
	return t.x0 - (int32_t)(sizeof(T) == 1 && C == 3 ? (0 - at) & 3 : 0);
}

/* Sets `at` to the positions that a lane reads for its pixels in the N rows from y on, as place(column, row, at) computes them. */
template <typename T, int C, int N, typename PLACE>
static __device__ __forceinline__ void stk__texel_places(const stk_texel_tile &t, int32_t y, PLACE place, float (&at)[N][2])
{
	int32_t column[N], row[N];
#pragma unroll
	for (int k = 0; k < N; k++) {
		row[k] = min(y + k, t.y1 - 1);
		column[k] = max(min(stk__texel_begin<T, C>(t, row[k]) + (int32_t)(threadIdx.x % 32), t.width - 1), 0);
	}
	place(column, row, at);
}

template <typename T, int C>
static __device__ __forceinline__ void stk__texel_put(const stk_texel_tile &t, int32_t y, const stk_texel<T, C> &made)
{
	int32_t begin = stk__texel_begin<T, C>(t, y);
	stk__texel_store(t, t.dst + (y * t.pitch + begin * (C * (int32_t)sizeof(T))), made, -begin, t.width - begin);
}

/* Makes the pixels of ROWS rows, from row y on. at: the positions to read. CLAMPED: clamps positions to the image; stk__texel_near must be true for all of
 * them. Otherwise, stk__texel_inside must be true for all. */
template <bool CLAMPED, typename T, int C, bool LINEAR, int ROWS>
static __device__ __forceinline__ void stk__texel_make(const stk_texel_source &s, const stk_texel_tile &t, int32_t y, float (&at)[ROWS][2])
{
	stk_texel_patch<T, C, LINEAR, stk__texel_words<T, C>()> patch[ROWS];
	int32_t x[ROWS];
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		int32_t iy = __float2int_rd(at[k][1]);
		x[k] = __float2int_rd(at[k][0]);
		at[k][0] -= (float)x[k];
		at[k][1] -= (float)iy;
		if (CLAMPED)
			stk__texel_load_clamped<T, C, LINEAR>(s, x[k], iy, patch[k]);
		else
			stk__texel_load<T, C, LINEAR>(s, x[k], iy, patch[k]);
	}
#pragma unroll
	for (int k = 0; k < ROWS; k++)
		if (y + k < t.y1) {
			if (CLAMPED)
				stk__texel_clamp<T, C, LINEAR>(s, x[k], patch[k]);
			stk__texel_put(t, y + k, stk__texel_mix<T, C, LINEAR>(patch[k], at[k][0], at[k][1]));
		}
}

/* Makes the pixels of the ROWS rows from y on. place(column, row, at) computes the positions in the source that output pixels are read from; it can compute any
 * number of positions at once. border(at) returns the output pixel for any position. fill: the pixel that is stored if s.fills and all positions of a row are
 * outside. */
template <typename T, int C, bool LINEAR, int ROWS, typename PLACE, typename BORDER>
static __device__ __forceinline__ void stk__texel_rows(
	const stk_texel_source &s, const stk_texel_tile &t, const stk_texel<T, C> &fill, int32_t y, PLACE place, BORDER border)
{
	float at[ROWS][2];
	stk__texel_places<T, C>(t, y, place, at);
	bool inside = true;
#pragma unroll
	for (int k = 0; k < ROWS; k++)
		inside = inside && stk__texel_inside<T, C, LINEAR>(s, at[k][0], at[k][1]);
	if (__all_sync(~0u, inside)) {
		stk__texel_make<false, T, C, LINEAR, ROWS>(s, t, y, at);
		return;
	}
	if (s.clamps) {
		bool near = true;
#pragma unroll
		for (int k = 0; k < ROWS; k++)
			near = near && stk__texel_near(at[k][0], at[k][1]);
		if (__all_sync(~0u, near)) {
			stk__texel_make<true, T, C, LINEAR, ROWS>(s, t, y, at);
			return;
		}
	}
#pragma unroll 1
	for (int32_t end = min(y + ROWS, t.y1); y < end; y++) {
		float one[1][2];
		stk__texel_places<T, C>(t, y, place, one);
		stk_texel<T, C> made = fill;
		if (!s.fills || !__all_sync(~0u, stk__texel_outside<LINEAR>(s, one[0][0], one[0][1])))
			made = border(one[0]);
		stk__texel_put(t, y, made);
	}
}

#endif
