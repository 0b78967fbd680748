/* SPDX-License-Identifier: Apache-2.0
 * Phase 1 of kernel/jpegpar.h: 256 threads a chunk, 16 stuffed bytes a thread. */
#include "kernel/jpegpar_lane.h"

#define THREADS 256
static_assert(THREADS * 16 == STK_JPEGPAR_CHUNK, "a thread takes 16 bytes");

/* A thread's 16 bytes, as masks with a bit a byte. */
struct piece {
	uint32_t word[4];
	uint32_t valid, stuffing, marker; /* marker: the byte behind an FF that begins one */
	uint32_t at;			  /* offset in raw */
};

static __device__ __forceinline__ piece load_piece(const stk_jpegpar_view &v, const stk_jpegpar_stream &s, uint32_t chunk)
{
	piece p = {};
	uint32_t begin = s.src, end = s.src + s.src_size;
	p.at = (s.src & ~15u) + (chunk - s.chunk0) * STK_JPEGPAR_CHUNK + threadIdx.x * 16;
	if (p.at >= end)
		return p;
	uint4 q = *(const uint4 *)(v.raw + p.at);
	p.word[0] = q.x, p.word[1] = q.y, p.word[2] = q.z, p.word[3] = q.w;
	uint32_t before = p.at > begin ? v.raw[p.at - 1] : 0, zero = 0, after_ff = 0;
#pragma unroll
	for (int k = 0; k < 4; k++) {
		uint32_t previous = __funnelshift_l(before << 24, p.word[k], 8); /* each byte's predecessor */
		uint32_t ff = __vcmpeq4(previous, 0xffffffffu) & 0x08040201u, nil = __vcmpeq4(p.word[k], 0) & 0x08040201u;
		after_ff |= ((ff | ff >> 8 | ff >> 16 | ff >> 24) & 15) << 4 * k;
		zero |= ((nil | nil >> 8 | nil >> 16 | nil >> 24) & 15) << 4 * k;
		before = p.word[k] >> 24;
	}
	p.valid = 0xffff;
	if (p.at < begin) {
		p.valid &= 0xffffu << (begin - p.at);
		after_ff &= ~(1u << (begin - p.at)); /* what lies before the stream is none of it */
	}
	if (p.at + 16 > end)
		p.valid &= (1u << (end - p.at)) - 1;
	p.stuffing = p.valid & after_ff & zero;
	p.marker = p.valid & after_ff & ~zero;
	return p;
}

static __device__ __forceinline__ uint32_t warp_sum(uint32_t x)
{
#pragma unroll
	for (int step = 16; step; step >>= 1)
		x += __shfl_xor_sync(~0u, x, step);
	return x;
}

extern "C" __global__ void __launch_bounds__(THREADS) jpeg_count(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ uint32_t sums[THREADS / 32];
	uint32_t at = stk__jpegpar_stream_of_chunk(&v, blockIdx.x);
	const stk_jpegpar_stream &s = v.streams[at];
	piece p = load_piece(v, s, blockIdx.x);
	if (p.marker)
		atomicMin(&v.marker[at], p.at + __ffs(p.marker) - 2 - s.src);
	uint32_t kept = __popc(p.valid & ~p.stuffing);
	kept = warp_sum(kept);
	if (threadIdx.x % 32 == 0)
		sums[threadIdx.x / 32] = kept;
	__syncthreads();
	if (threadIdx.x == 0) {
		uint32_t sum = 0;
		for (int i = 0; i < THREADS / 32; i++)
			sum += sums[i];
		v.kept[blockIdx.x] = sum;
	}
}

/* Sum of the kept bytes of the stream's chunks before this one, by the first warp. */
static __device__ __forceinline__ uint32_t bytes_before(const stk_jpegpar_view &v, const stk_jpegpar_stream &s, uint32_t chunk)
{
	uint32_t sum = 0;
	for (uint32_t i = s.chunk0 + threadIdx.x; i < chunk; i += 32)
		sum += v.kept[i];
	return warp_sum(sum);
}

/* Copies `count` bytes that lie at `skip` in `from` to `to + skip`, both laid out as big-endian words; 16 bytes at a time but at the ends. */
static __device__ __forceinline__ void flush(uint8_t *to, const uint8_t *from, uint32_t skip, uint32_t count)
{
	uint32_t end = skip + count;
	for (uint32_t i = 16 * threadIdx.x; i < end; i += 16 * THREADS)
		if (i >= skip && i + 16 <= end)
			*(uint4 *)(to + i) = *(const uint4 *)(from + i);
		else
			for (uint32_t k = max(i, skip); k < min(i + 16, end); k++)
				to[k ^ 3] = from[k ^ 3];
}

extern "C" __global__ void __launch_bounds__(THREADS) jpeg_unstuff(const __grid_constant__ stk_jpegpar_view v)
{
	__shared__ __align__(16) uint8_t bytes[STK_JPEGPAR_CHUNK + 32];
	__shared__ uint32_t sums[THREADS / 32], shared_base;
	uint32_t at = stk__jpegpar_stream_of_chunk(&v, blockIdx.x), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const stk_jpegpar_stream &s = v.streams[at];
	piece p = load_piece(v, s, blockIdx.x);
	uint32_t stop = s.src + min(v.marker[at], s.src_size);
	uint32_t live = p.at >= stop ? 0 : stop - p.at < 16 ? (1u << (stop - p.at)) - 1 : 0xffff;
	uint32_t keep = p.valid & ~p.stuffing & live, count = __popc(keep), sum = count;
	if (warp == 0) {
		uint32_t before = bytes_before(v, s, blockIdx.x);
		if (lane == 0)
			shared_base = before;
	}
#pragma unroll
	for (int step = 1; step < 32; step <<= 1) {
		uint32_t below = __shfl_up_sync(~0u, sum, step);
		sum += lane >= step ? below : 0;
	}
	if (lane == 31)
		sums[warp] = sum;
	__syncthreads();
	uint32_t total = 0, base = shared_base, skip = base & 15, to = skip + sum - count;
#pragma unroll
	for (uint32_t i = 0; i < THREADS / 32; i++) {
		to += i < warp ? sums[i] : 0;
		total += sums[i];
	}
#pragma unroll
	for (int i = 0; i < 16; i++)
		if (keep >> i & 1)
			bytes[to++ ^ 3] = (uint8_t)(p.word[i / 4] >> 8 * (i % 4));
	__syncthreads();
	flush(v.bits + (size_t)s.segment0 * (STK_JPEGPAR_SEGMENT / 8) + (base - skip), bytes, skip, total);

	uint32_t begin = (s.src & ~15u) + (blockIdx.x - s.chunk0) * STK_JPEGPAR_CHUNK, end = min(begin + STK_JPEGPAR_CHUNK, s.src + s.src_size);
	bool first = blockIdx.x == s.chunk0, last = blockIdx.x == s.chunk0 + s.chunks - 1;
	if (threadIdx.x == 0 && (stop > max(begin, s.src) || first) && (stop <= end || last))
		v.bit_length[at] = 8 * (base + total);
}
