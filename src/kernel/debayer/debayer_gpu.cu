/* SPDX-License-Identifier: Apache-2.0
 * Demosaicing on the GPU. A thread makes four pixels at a time for BILINEAR on bytes, if the image has at least 3 x 3 pixels and its rows
 * are whole, aligned words; otherwise one. */
#include "kernel/debayer/debayer.h"
#include "kernel/job/job_find.cuh"

/* Four adjacent pixels of a row of the source. Byte i of `own` is pixel i; byte i of `west` and `east` is its left and right neighbour. */
struct row_words {
	uint32_t west, own, east;
};

/* Returns four pixels and their neighbours. from: address of the first pixel. first: the four pixels are the first ones of their row; last: they are the last
 * ones. A neighbour outside of the row is 0. */
static __device__ __forceinline__ row_words load_row(const uint8_t *from, bool first, bool last)
{
	const uint32_t *words = (const uint32_t *)(const void *)from;
	uint32_t left = first ? 0 : __ldg(words - 1), own = __ldg(words), right = last ? 0 : __ldg(words + 1);
	return {__funnelshift_l(left, own, 8), own, __funnelshift_r(own, right, 8)};
}

/* Returns (a + b + 1) / 2 for each byte. */
static __device__ __forceinline__ uint32_t average(uint32_t a, uint32_t b)
{
	return (a | b) - ((a ^ b) >> 1 & 0x7f7f7f7f);
}

/* Returns (a + b + c + d + 2) / 4 for two bytes of the four words: bytes 0 and 2 if shift is 0, bytes 1 and 3 if it is 8. Other bytes of the result are 0. */
static __device__ __forceinline__ uint32_t average(uint32_t a, uint32_t b, uint32_t c, uint32_t d, int shift)
{
	const uint32_t two = 0x00ff00ff;
	uint32_t sum = (a >> shift & two) + (b >> shift & two) + (c >> shift & two) + (d >> shift & two) + 0x00020002;
	return (sum >> 2 & two) << shift;
}

/* Makes four pixels, as stk__debayer_one computes them. n, o, s: the pixels in the row above, in their own row, and in the row below. line: true if their row
 * has blue pixels. GREEN: index (0 or 1) of the first green pixel. */
template <int GREEN>
static __device__ __forceinline__ void mix_words(const row_words &n, const row_words &o, const row_words &s, bool line, uint32_t (&rgb)[3])
{
	const uint32_t greens = GREEN ? 0xff00ff00 : 0x00ff00ff;
	const int others = GREEN ? 0 : 8; /* shift to the first pixel that is not green */
	uint32_t side = average(o.west, o.east), above = average(n.own, s.own);
	uint32_t cross = average(o.west, o.east, n.own, s.own, others), corners = average(n.west, n.east, s.west, s.east, others);
	uint32_t own = (side & greens) | (o.own & ~greens), other = (above & greens) | corners;
	rgb[0] = line ? other : own;
	rgb[1] = (o.own & greens) | cross;
	rgb[2] = line ? own : other;
}

/* Makes pixels i to i + 3, counted over all frames, of an image of at least 3 x 3 pixels whose rows are whole words. */
static __device__ __forceinline__ void make_four(const stk_debayer &b, const uint8_t *src, uint8_t *dst, uint32_t i)
{
	uint32_t row = i / (uint32_t)b.width, frame = row / (uint32_t)b.height;
	int32_t x = (int32_t)(i - row * (uint32_t)b.width), y = (int32_t)(row - frame * (uint32_t)b.height);
	bool first = x == 0, last = x + 4 == b.width;
	y = min(max(y, 1), b.height - 2);
	const uint8_t *from = src + ((int64_t)frame * b.height + y) * b.width + x;
	row_words n = load_row(from - b.width, first, last), o = load_row(from, first, last), s = load_row(from + b.width, first, last);
	bool line = (y + b.blue_y) % 2 != 0;
	uint32_t rgb[3];
	if (line != (b.blue_x % 2 != 0))
		mix_words<0>(n, o, s, line, rgb);
	else
		mix_words<1>(n, o, s, line, rgb);
	uint32_t select = 0x3210 + first - (last << 12); /* pixels at the edge copy the nearest pixel that is not at the edge */
#pragma unroll
	for (int c = 0; c < 3; c++)
		rgb[c] = __byte_perm(rgb[c], 0, select);
	uint32_t *to = (uint32_t *)(void *)(dst + 3 * (int64_t)i);
	to[0] = __byte_perm(__byte_perm(rgb[0], rgb[1], 0x1040), rgb[2], 0x3410);
	to[1] = __byte_perm(__byte_perm(rgb[1], rgb[2], 0x2051), rgb[0], 0x3610);
	to[2] = __byte_perm(__byte_perm(rgb[2], rgb[0], 0x3072), rgb[1], 0x3710);
}

extern "C" __global__ void __launch_bounds__(STK_JOB_THREADS) job_debayer(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	const stk_debayer b = STK_PARAMS(stk_debayer, &it.job);
	const uint8_t *src = it.job.src[0];
	uint8_t *dst = it.job.dst;
	outputs o = outputs_of(v, it, it.job.n);
	bool words = b.method == STK_DEBAYER_BILINEAR && !b.wide && b.width >= 3 && b.height >= 3 && b.width % 4 == 0;
	if (words && (((uintptr_t)src | (uintptr_t)dst) & 3) == 0) {
		for (uint32_t i = o.begin + 3 * threadIdx.x; i < o.end; i += 4 * STK_JOB_THREADS)
			make_four(b, src, dst, i);
		return;
	}
	for (uint32_t i = o.begin; i < o.end; i += STK_JOB_THREADS)
		stk__debayer_one(&b, src, dst, i);
}
