/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h) over dense pixels of three bytes, without a sampler, to bytes or floats: windows, mirrors, fills, colours, and the
 * normalisation after an augmentation. They are limited by the bandwidth of memory. So each thread makes quads: four pixels, which are read as words and stored
 * as words or vectors. */
#include "kernel/common/pixels.cuh"
#include "kernel/pass/pass_gpu_quads.cuh"

/* ---- loads ---- */

/* Returns quad (x, y), of which some pixels do not come from the source. Such a pixel gets the fill value, or is outside of the output, where nothing is
 * stored. across: whether output row y comes from the source. */
static __device__ __noinline__ quad load_edge(const stk_pass_gpu_item &it, int32_t x, int32_t y, bool across, uint32_t fill)
{
	const stk_pass_gpu_axis &ax = it.axis[0], &ay = it.axis[1];
	quad q = {{}, x, y};
#pragma unroll
	for (int i = 0; i < 4; i++) {
		uint32_t pixel = fill;
		if (across && x + i >= ax.begin && x + i < ax.end) {
			const uint8_t *from =
				(const uint8_t *)it.src + (map(ay.pre, y) - it.y0) * it.src_row + (map(ax.pre, x + i) - it.x0) * 3;
			pixel = __ldg(from) | __ldg(from + 1) << 8 | __ldg(from + 2) << 16;
		}
		int at = ax.pre.step > 0 ? 3 * i : 9 - 3 * i;
		q.bytes.word[at / 4] |= pixel << 8 * (at % 4);
		q.bytes.word[at / 4 + 1] |= at % 4 > 1 ? pixel >> 8 * (4 - at % 4) : 0;
	}
	return q;
}

static __device__ __forceinline__ quad load_quad(const stk_pass_gpu_item &it, int32_t x, int32_t y, uint32_t fill)
{
	const stk_pass_gpu_axis &ax = it.axis[0], &ay = it.axis[1];
	bool across = y >= ay.begin && y < ay.end;
	if (!across || x < ax.begin || x + 4 > ax.end)
		return load_edge(it, x, y, across, fill);
	int32_t left = map(ax.pre, x) - (ax.pre.step > 0 ? 0 : 3);
	uint64_t from = it.src + (map(ay.pre, y) - it.y0) * it.src_row + (left - it.x0) * 3;
	return {stk__span_of<12>((const uint8_t *)from), x, y};
}

/* ---- stores ---- */

/* Stores three words of bytes. If the quad exceeds an end of the row, stores only the bytes inside the row, one by one. */
template <bool INTERLEAVED>
static __device__ __forceinline__ void store_bytes(const stk_pass_gpu_item &it, const quad &q, const uint32_t (&word)[3])
{
	uint8_t *to = (uint8_t *)it.dst + q.y * it.dst_row + q.x * it.dst_pixel;
	const int64_t stride = INTERLEAVED ? 4 : it.dst_channel;
	if (q.x >= 0 && q.x + 4 <= it.axis[0].size) {
#pragma unroll
		for (int k = 0; k < 3; k++)
			*(uint32_t *)(to + k * stride) = word[k];
		return;
	}
#pragma unroll
	for (int k = 0; k < 3; k++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int32_t x = q.x + value_at(INTERLEAVED, k, i) / 3;
			if (x >= 0 && x < it.axis[0].size)
				to[k * stride + i] = (uint8_t)(word[k] >> 8 * i);
		}
}

template <bool INTERLEAVED> static __device__ __forceinline__ void make_bytes(const stk_pass_gpu_item &it, const ending &e, const quad &q)
{
	uint32_t word[3], made[3];
	straighten(q, e.mirrored, word);
	if (e.form == STK_PASS_GPU_FORM_NONE) {
		if (!INTERLEAVED) {
			made[0] = __byte_perm(__byte_perm(word[0], word[1], 0x0630), word[2], 0x5210);
			made[1] = __byte_perm(__byte_perm(word[0], word[1], 0x0741), word[2], 0x6210);
			made[2] = __byte_perm(__byte_perm(word[0], word[1], 0x0052), word[2], 0x7410);
		}
		store_bytes<INTERLEAVED>(it, q, INTERLEAVED ? word : made);
		return;
	}
	float value[12];
	transform(e, word, value);
#pragma unroll
	for (int k = 0; k < 3; k++)
		made[k] = stk__to_bytes(value[value_at(INTERLEAVED, k, 0)], value[value_at(INTERLEAVED, k, 1)],
			value[value_at(INTERLEAVED, k, 2)], value[value_at(INTERLEAVED, k, 3)]);
	store_bytes<INTERLEAVED>(it, q, made);
}

/* ---- quads ---- */

/* Returns the position of the first pixel of a row's first quad. Quads of bytes begin at a word of the output, which may begin left of the row. */
static __device__ __forceinline__ int32_t row_begin(const stk_pass_gpu_item &it, const ending &e, int32_t y)
{
	uint32_t past = (uint32_t)(it.dst + y * it.dst_row);
	return e.dtype != STK_UINT8 ? 0 : -(int32_t)((e.interleaved ? 0 - past : past) & 3);
}

/* Calls make(quad) for each of a thread's quads that is not below the last row of the output. */
template <typename F> static __device__ __forceinline__ void make_each(const stk_pass_gpu_item &it, const quad (&q)[QUADS], F make)
{
#pragma unroll
	for (int k = 0; k < QUADS; k++)
		if (q[k].y < it.axis[1].size)
			make(q[k]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_rows(const __grid_constant__ stk_pass_gpu_view v)
{
	__shared__ stk_pass_gpu_item it;
	share_item(v, it);
	const ending e = make_ending(v, it);
	const int32_t across = (int32_t)it.across, row_step = THREADS / across, column_step = THREADS - row_step * across;
	const uint32_t first = (blockIdx.x - it.block0[v.launch]) * STK_PASS_GPU_QUADS + threadIdx.x;
	int32_t y = (int32_t)(first / it.across), x = (int32_t)first - y * across;
	quad q[QUADS];
#pragma unroll
	for (int k = 0; k < QUADS; k++) {
		q[k].y = y;
		if (y < it.axis[1].size)
			q[k] = load_quad(it, 4 * x + row_begin(it, e, y), y, e.fill);
		x += column_step;
		y += row_step + (x >= across);
		x -= x >= across ? across : 0;
	}
	if (e.dtype == STK_UINT8 && e.interleaved)
		make_each(it, q, [&](const quad &one) { make_bytes<true>(it, e, one); });
	else if (e.dtype == STK_UINT8)
		make_each(it, q, [&](const quad &one) { make_bytes<false>(it, e, one); });
	else if (e.interleaved)
		make_each(it, q, [&](const quad &one) { make_floats<true>(it, e, one); });
	else
		make_each(it, q, [&](const quad &one) { make_floats<false>(it, e, one); });
}
