/* SPDX-License-Identifier: Apache-2.0
 * Flat jobs that keep or replace values depending on their position: erase and grid_mask. A thread processes an aligned piece of 16 bytes at once. For each
 * piece there is a mask of 16 bits, which are set for the bytes to replace; the lowest bit is for the first byte. erase computes the mask row by row, grid_mask
 * pixel by pixel. */
#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"
#include "kernel/pointwise/pointwise_element.h"

#include <string.h>

#define THREADS STK_JOB_THREADS
#define PIECE STK_JOB_FLAT_PIECE
#define ALL ((1u << PIECE) - 1)

/* Returns a mask of the n bytes from byte `at` on. */
static __device__ __forceinline__ uint32_t bits_of(uint32_t at, uint32_t n)
{
	return ((1u << n) - 1) << at;
}

/* Returns a word whose byte k is ff if bit k is set, and 0 otherwise, for k from 0 to 3. The product has a copy of bit k at the lowest position of byte k, and
 * others, which the mask 0x1010101 removes. */
static __device__ __forceinline__ uint32_t bytes_of(uint32_t bits)
{
	return ((bits & 15) * 0x204081u & 0x1010101u) * 255u;
}

/* Returns the first n bytes of a piece, followed by zeros. */
static __device__ __forceinline__ uint4 load_bytes(const uint8_t *from, uint32_t n)
{
	uint32_t word[4] = {};
#pragma unroll
	for (int i = 0; i < PIECE; i++)
		word[i / 4] |= i < n ? (uint32_t)from[i] << 8 * (i % 4) : 0;
	return make_uint4(word[0], word[1], word[2], word[3]);
}

static __device__ __forceinline__ uint4 load_piece(const uint8_t *from, uint32_t n)
{
	return n == PIECE && (uintptr_t)from % PIECE == 0 ? *(const uint4 *)from : load_bytes(from, n);
}

static __device__ __forceinline__ void store_piece(uint8_t *to, const uint4 &piece, uint32_t n)
{
	if (n == PIECE) {
		*(uint4 *)to = piece;
		return;
	}
	const uint32_t word[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
	for (int i = 0; i < PIECE; i++)
		if (i < n)
			to[i] = (uint8_t)(word[i / 4] >> 8 * (i % 4));
}

static __device__ __forceinline__ uint32_t mix(uint32_t word, uint32_t other, uint32_t bits)
{
	uint32_t bytes = bytes_of(bits);
	return (word & ~bytes) | (other & bytes);
}

/* Returns `piece`, with the bytes of `other` where bits of `mask` are set. */
static __device__ __forceinline__ uint4 mix_pieces(const uint4 &piece, const uint4 &other, uint32_t mask)
{
	return make_uint4(mix(piece.x, other.x, mask), mix(piece.y, other.y, mask >> 4), mix(piece.z, other.z, mask >> 8),
		mix(piece.w, other.w, mask >> 12));
}

/* Makes the job's pieces. mask_of(first): returns the mask for the piece that begins with output `first`; replace(first): returns the bytes that replace its
 * outputs. The pieces at the ends of the job have fewer outputs. */
template <typename M, typename R>
static __device__ __forceinline__ void make_pieces(const stk_job_gpu_view &v, const stk_job_gpu_item &it, M mask_of, R replace)
{
	const uint8_t *src = it.job.src[0];
	uint8_t *dst = it.job.dst;
	const uint32_t size = (uint32_t)stk__job_size(it.job.dst_dtype), whole = PIECE / size, lead = it.flat.lead, n = (uint32_t)it.job.n;
	uint32_t piece = (blockIdx.x - it.block0[v.launch]) * STK_JOB_PIECES, end = min(piece + STK_JOB_PIECES, it.flat.pieces);
#pragma unroll 1
	for (piece += threadIdx.x; piece < end; piece += THREADS) {
		uint32_t first = piece ? piece * whole - lead : 0, bytes = size * min(n - first, piece ? whole : whole - lead);
		uint4 values = load_piece(src + (int64_t)first * size, bytes);
		uint32_t mask = mask_of(first);
		if (mask)
			values = mix_pieces(values, replace(first), mask);
		store_piece(dst + (int64_t)first * size, values, bytes);
	}
}

/* ---- grid_mask ---- */

/* The layout of a job's pixels, and the first pixel of a piece, (x, y). before: number of this pixel's outputs that are in earlier pieces. */
struct pixels {
	uint32_t wide, width, height; /* number of outputs in a pixel, of pixels in a row, and of rows in a frame */
	uint32_t x, y, before;
};

static __device__ __forceinline__ void find_pixel(pixels &p, uint32_t first)
{
	uint32_t at = first / p.wide, row = at / p.width;
	p.x = at - row * p.width;
	p.y = row < p.height ? row : row % p.height;
	p.before = first - at * p.wide;
}

/* Returns the mask of a piece that begins at p, for pixels of any size. The piece may continue in the next row. size: bytes of an output. */
static __device__ __forceinline__ uint32_t mask_pixels(const stk_pointwise_grid &g, pixels p, uint32_t size)
{
	uint32_t mask = 0, left = min(p.wide - p.before, (uint32_t)PIECE) * size; /* number of bytes of the current pixel from `at` on */
	for (uint32_t at = 0; at < PIECE; at += left, left = min(p.wide, (uint32_t)PIECE) * size) {
		if (stk__pointwise_in_square(&g, (int32_t)p.x, (int32_t)p.y))
			mask |= bits_of(at, min(left, (uint32_t)PIECE));
		p.x++;
		p.y += p.x == p.width;
		p.x = p.x == p.width ? 0 : p.x;
		p.y = p.y == p.height ? 0 : p.y;
	}
	return mask & ALL;
}

/* Returns the mask of a piece that lies in one row, for pixels of WIDE outputs of SIZE bytes. */
template <int WIDE, int SIZE> static __device__ __forceinline__ uint32_t mask_row(const stk_pointwise_grid &g, const pixels &p)
{
	const float ys = (float)(int32_t)p.y * g.s, yc = (float)(int32_t)p.y * g.c;
	enum { BYTES = WIDE * SIZE };
	uint32_t mask = 0;
#pragma unroll
	for (int k = 0; k * BYTES < PIECE + BYTES - 1; k++) {
		float tiles[2];
		stk__pointwise_tiles(&g, (int32_t)p.x + k, ys, yc, tiles);
		/* & instead of && avoids a branch */
		bool inside = (stk__pointwise_in_tile(tiles[0]) < g.ratio) & (stk__pointwise_in_tile(tiles[1]) < g.ratio);
		mask |= inside ? bits_of(k * BYTES, BYTES) : 0;
	}
	return mask >> p.before * SIZE & ALL;
}

/* Runs grid_mask. WIDE: number of outputs in a pixel; SIZE: bytes of an output. If both are 0, the job's numbers are used. */
template <int WIDE, int SIZE> static __device__ __forceinline__ void mask_grid(const stk_job_gpu_view &v, const stk_job_gpu_item &it)
{
	const stk_pointwise_grid g = STK_PARAMS(stk_pointwise, &it.job).grid;
	const uint32_t size = SIZE ? SIZE : (uint32_t)stk__job_size(it.job.dst_dtype);
	auto squares = [&](uint32_t first) {
		enum {
			BYTES = WIDE ? WIDE * SIZE : 1,
			TOUCHED = (PIECE + 2 * BYTES - 2) / BYTES /* maximum number of pixels in a piece */
		};
		pixels p = {WIDE ? WIDE : (uint32_t)g.x_divisor, (uint32_t)g.width, (uint32_t)g.height, 0, 0, 0};
		find_pixel(p, first);
		if (WIDE && p.x + TOUCHED <= p.width)
			return mask_row < WIDE ? WIDE : 1, WIDE ? SIZE : 1 > (g, p);
		return mask_pixels(g, p, size);
	};
	make_pieces(v, it, squares, [](uint32_t) { return make_uint4(0, 0, 0, 0); });
}

static __device__ __forceinline__ void mask_any_grid(const stk_job_gpu_view &v, const stk_job_gpu_item &it)
{
	const int32_t size = stk__job_size(it.job.dst_dtype),
		      wide = (int32_t)min(STK_PARAMS(stk_pointwise, &it.job).grid.x_divisor, (int64_t)PIECE);
	if (size == 1 && wide == 3)
		mask_grid<3, 1>(v, it);
	else if (size == 1 && wide == 1)
		mask_grid<1, 1>(v, it);
	else if (size == 4 && wide == 3)
		mask_grid<3, 4>(v, it);
	else
		mask_grid<0, 0>(v, it);
}

/* ---- erase ---- */

/* The bounds of regions (see stk__pointwise_bounds), and the tensor's shape. A row consists of the outputs that have the same index in all dimensions except
 * the last. */
struct erased {
	const int64_t *bounds;
	int32_t regions, ndim;
	uint32_t length; /* number of outputs in a row */
	const int64_t *shape;
};

static __device__ __forceinline__ bool has_row(const erased &e, const int64_t *bounds, uint32_t row)
{
	bool inside = true;
#pragma unroll 1
	for (int32_t k = e.ndim - 2; k >= 0; k--) {
		uint32_t size = (uint32_t)e.shape[k], rest = k ? row / size : 0, at = row - rest * size;
		inside = inside && at >= bounds[2 * k] && at < bounds[2 * k + 1];
		row = rest;
	}
	return inside;
}

/* Returns a mask of the bytes that are in regions, for outputs at .. at + n - 1 of a row. The first of them is at byte `byte` of the piece; size: bytes of
 * an output. */
static __device__ __forceinline__ uint32_t row_bits(const erased &e, uint32_t row, uint32_t at, uint32_t n, uint32_t byte, uint32_t size)
{
	uint32_t mask = 0;
	const int64_t *bounds = e.bounds;
#pragma unroll 1
	for (int32_t r = 0; r < e.regions; r++, bounds += 2 * e.ndim) {
		uint32_t begin = max((uint32_t)bounds[2 * e.ndim - 2], at), end = min((uint32_t)bounds[2 * e.ndim - 1], at + n);
		if (begin < end && has_row(e, bounds, row))
			mask |= bits_of(byte + (begin - at) * size, (end - begin) * size);
	}
	return mask;
}

template <typename T> static __device__ __forceinline__ uint4 fill_piece(const stk_pointwise_erase &p, const uint8_t *fills, uint32_t first)
{
	enum { N = PIECE / sizeof(T) };
	const uint32_t divisor = (uint32_t)p.fill_divisor, n = (uint32_t)p.n_fills;
	uint32_t whole = n > 1 ? first / divisor : 0, rest = n > 1 ? first - whole * divisor : 0, at = n > 1 ? whole % n : 0;
	T row[N], fill = *(const T *)(const void *)(fills + 8 * at);
#pragma unroll
	for (int j = 0; j < N; j++) {
		row[j] = fill;
		if (n > 1 && ++rest == divisor) {
			rest = 0;
			at = at + 1 == n ? 0 : at + 1;
			fill = *(const T *)(const void *)(fills + 8 * at);
		}
	}
	uint4 piece;
	memcpy(&piece, row, PIECE);
	return piece;
}

static __device__ __forceinline__ void erase(const stk_job_gpu_view &v, const stk_job_gpu_item &it)
{
	const stk_pointwise_erase &p = STK_PARAMS(stk_pointwise, &it.job).erase;
	const uint8_t *fills = (const uint8_t *)it.job.constants;
	const erased e = {(const int64_t *)it.job.constants + p.n_fills, p.regions, p.ndim, (uint32_t)p.shape[p.ndim - 1], p.shape};
	const uint32_t size = (uint32_t)stk__job_size(it.job.dst_dtype), whole = PIECE / size;
	auto regions = [&](uint32_t first) {
		uint32_t row = first / e.length, at = first - row * e.length, mask = 0;
		for (uint32_t made = 0, n; made < whole; made += n, row++, at = 0) {
			n = min(whole - made, e.length - at);
			mask |= row_bits(e, row, at, n, made * size, size);
		}
		return mask;
	};
	make_pieces(v, it, regions, [&](uint32_t first) {
		switch (size) {
		case 1:
			return fill_piece<uint8_t>(p, fills, first);
		case 2:
			return fill_piece<uint16_t>(p, fills, first);
		case 4:
			return fill_piece<uint32_t>(p, fills, first);
		default:
			return fill_piece<uint64_t>(p, fills, first);
		}
	});
}

extern "C" __global__ void __launch_bounds__(THREADS, 5) job_mask(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	if (STK_PARAMS(stk_pointwise, &it.job).op == STK_POINTWISE_GRID)
		mask_any_grid(v, it);
	else
		erase(v, it);
}
