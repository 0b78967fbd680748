/* SPDX-License-Identifier: Apache-2.0
 * Phases count and unstuff of jpeg_gpu.h: 256 threads for each chunk, 16 bytes of the file for each thread. */
#include "kernel/common/find.cuh"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

#define THREADS 256
static_assert(THREADS * 16 == STK_JPEG_GPU_CHUNK, "a thread takes 16 bytes");

/* A thread's 16 bytes. The masks have one bit for each byte. */
struct piece {
	uint32_t word[4];
	uint32_t valid, stuffing, marker; /* bytes of the bitstream; 00 bytes after an FF; bytes that follow the FF of a marker */
	uint32_t at;                      /* offset of the first byte in stk_jpeg_gpu_view.raw */
};

#define TOPS 0x80808080u

/* Return a word in which the top bit of each byte is set if this byte of `word` is FF (bytes_ff) or 00 (bytes_00). All other bits are 0. */
static __device__ __forceinline__ uint32_t bytes_ff(uint32_t word)
{
	return ((word & ~TOPS) + 0x01010101) & word & TOPS;
}

static __device__ __forceinline__ uint32_t bytes_00(uint32_t word)
{
	return ~((word & ~TOPS) + ~TOPS | word) & TOPS;
}

/* Returns a mask of 16 bits, in which bit i is the top bit of byte i. All other bits of the 16 bytes must be 0. Multiplies each byte by a power of 2 for its
 * position, and adds the products. */
static __device__ __forceinline__ uint32_t gather(const uint32_t tops[4])
{
	uint32_t low = __dp4a(tops[1], 0x80402010u, __dp4a(tops[0], 0x08040201u, 0u));
	uint32_t high = __dp4a(tops[3], 0x80402010u, __dp4a(tops[2], 0x08040201u, 0u));
	return low >> 7 | high << 1;
}

static __device__ __forceinline__ piece load_piece(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_bitstream &s, uint32_t chunk)
{
	piece p = {};
	uint32_t begin = s.src, end = s.src + s.src_size;
	p.at = (s.src & ~15u) + (chunk - s.chunk0) * STK_JPEG_GPU_CHUNK + threadIdx.x * 16;
	if (p.at >= end)
		return p;
	const uint8_t *from = v.raw + p.at;
	uint4 q = *(const uint4 *)from;
	p.word[0] = q.x, p.word[1] = q.y, p.word[2] = q.z, p.word[3] = q.w;
	uint32_t before = bytes_ff((uint32_t)from[-1] << 24), after_ff[4], stuffing[4];
#pragma unroll
	for (int k = 0; k < 4; k++) {
		uint32_t ff = bytes_ff(p.word[k]);
		after_ff[k] = __funnelshift_l(before, ff, 8);
		stuffing[k] = after_ff[k] & bytes_00(p.word[k]);
		before = ff;
	}
	p.valid = 0xffff;
	if (p.at + 16 > end)
		p.valid = (1u << (end - p.at)) - 1;
	uint32_t can_follow = p.valid;
	if (p.at <= begin) {
		p.valid &= 0xffffu << (begin - p.at);
		can_follow = p.valid & p.valid - 1; /* the FF before the bitstream's first byte does not belong to it */
	}
	p.stuffing = can_follow & gather(stuffing);
	p.marker = can_follow & gather(after_ff) & ~p.stuffing;
	return p;
}

static __device__ __forceinline__ uint32_t find_bitstream(const stk_jpeg_gpu_view &v, uint32_t chunk)
{
	return stk__find_warp(&v.bitstreams->chunk0, sizeof *v.bitstreams, v.n_bitstreams, chunk);
}

extern "C" __global__ void __launch_bounds__(THREADS) jpeg_gpu_count(const __grid_constant__ stk_jpeg_gpu_view v)
{
	__shared__ uint32_t sums[THREADS / 32];
	uint32_t at = find_bitstream(v, blockIdx.x);
	const stk_jpeg_gpu_bitstream &s = v.bitstreams[at];
	piece p = load_piece(v, s, blockIdx.x);
	if (p.marker)
		atomicMin(&v.marker[at], p.at + __ffs(p.marker) - 2 - s.src);
	uint32_t kept = __popc(p.valid & ~p.stuffing);
	kept = stk__warp_sum(kept);
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

/* Returns the number of bytes of the bitstream in the chunks before `chunk`, without stuffing. Only the first warp of a block calls this. */
static __device__ __forceinline__ uint32_t bytes_before(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_bitstream &s, uint32_t chunk)
{
	uint32_t sum = 0;
	for (uint32_t i = s.chunk0 + threadIdx.x; i < chunk; i += 32)
		sum += v.kept[i];
	return stk__warp_sum(sum);
}

static __device__ __forceinline__ uint32_t swapped(uint32_t word)
{
	return __byte_perm(word, 0, 0x0123);
}

/* Copies bytes skip .. skip + count - 1 of `from` to `to`, and reverses the bytes of each word, so that a word has its first bit at the top. */
static __device__ __forceinline__ void flush(uint8_t *to, const uint8_t *from, uint32_t skip, uint32_t count)
{
	uint32_t end = skip + count;
	for (uint32_t i = 16 * threadIdx.x; i < end; i += 16 * THREADS)
		if (i >= skip && i + 16 <= end) {
			uint4 q = *(const uint4 *)(from + i);
			*(uint4 *)(to + i) = make_uint4(swapped(q.x), swapped(q.y), swapped(q.z), swapped(q.w));
		} else {
#pragma unroll 1
			for (uint32_t k = max(i, skip); k < min(i + 16, end); k++)
				to[k ^ 3] = from[k];
		}
}

extern "C" __global__ void __launch_bounds__(THREADS) jpeg_gpu_unstuff(const __grid_constant__ stk_jpeg_gpu_view v)
{
	__shared__ __align__(16) uint8_t bytes[STK_JPEG_GPU_CHUNK + 32];
	__shared__ uint32_t sums[THREADS / 32], shared_base;
	uint32_t at = find_bitstream(v, blockIdx.x), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const stk_jpeg_gpu_bitstream &s = v.bitstreams[at];
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
	uint8_t *kept = bytes + to;
#pragma unroll
	for (int i = 0; i < 16; i++)
		if (keep >> i & 1)
			kept[i] = (uint8_t)(p.word[i / 4] >> 8 * (i % 4));
		else
			kept--; /* a byte is dropped: later bytes move towards the start */
	__syncthreads();
	flush(v.bits + (size_t)s.subsequence0 * (STK_JPEG_GPU_SUBSEQUENCE / 8) + (base - skip), bytes, skip, total);

	uint32_t begin = (s.src & ~15u) + (blockIdx.x - s.chunk0) * STK_JPEG_GPU_CHUNK,
		 end = min(begin + STK_JPEG_GPU_CHUNK, s.src + s.src_size);
	bool first = blockIdx.x == s.chunk0, last = blockIdx.x == s.chunk0 + s.chunks - 1;
	if (threadIdx.x == 0 && (stop > max(begin, s.src) || first) && (stop <= end || last))
		v.bit_length[at] = 8 * (base + total);
}
