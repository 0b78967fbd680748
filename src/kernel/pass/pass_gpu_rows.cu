/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU (pass_gpu.h) that take whole rows of dense pixels of three bytes and only make floats of them, as a normalisation behind augmentation
 * does: memory is all that they wait for. A thread reads four pixels as three words, and writes as many vectors. */
#include "kernel/pass/pass_gpu.cuh"

#define QUADS (STK_PASS_GPU_QUADS / THREADS) /* of a thread: all are loaded before the first is written */

/* Four values, stored at once. */
static __device__ __forceinline__ void store_four(uint8_t *to, const float (&x)[4], int32_t dtype)
{
	if (dtype == STK_FLOAT)
		*(float4 *)to = make_float4(x[0], x[1], x[2], x[3]);
	else if (dtype == STK_FLOAT16)
		*(ushort4 *)to = make_ushort4(stk__half_bits(x[0]), stk__half_bits(x[1]), stk__half_bits(x[2]), stk__half_bits(x[3]));
	else
		*(ushort4 *)to = make_ushort4(stk__bfloat_bits(x[0]), stk__bfloat_bits(x[1]), stk__bfloat_bits(x[2]), stk__bfloat_bits(x[3]));
}

/* What all quads of an item share. */
struct quads {
	const uint8_t *src; /* of pixel (0, 0) of the source */
	uint8_t *dst;
	int64_t src_row, dst_row, dst_pixel, dst_channel;
	int32_t column, step, row, down, dtype;
	float scale[3], bias[3];
};

static __device__ __forceinline__ quads find_quads(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it)
{
	const stk_step &step = v.steps[it.step0];
	const stk_axis_map &x = it.axis[0].pre, &y = it.axis[1].pre;
	quads q = {(const uint8_t *)it.src - it.y0 * it.src_row - it.x0 * 3, (uint8_t *)it.dst, it.src_row, it.dst_row, it.dst_pixel, it.dst_channel, x.first, x.step,
		y.first, y.step, it.dtype, {}, {}};
#pragma unroll
	for (int c = 0; c < 3; c++) {
		q.scale[c] = step.scale[c];
		q.bias[c] = step.bias[c];
	}
	return q;
}

/* Makes the four pixels from (x, y) on. INTERLEAVED: of channels beside each other, else of planes. */
template <bool INTERLEAVED> static __device__ __forceinline__ void make_quad(const quads &q, const uint32_t (&word)[3], int32_t x, int32_t y)
{
	float pixel[4][3];
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int c = 0; c < 3; c++) {
			const int straight = 3 * i + c, mirrored = 3 * (3 - i) + c;
			uint32_t byte = q.step > 0 ? word[straight / 4] >> 8 * (straight % 4) & 255 : word[mirrored / 4] >> 8 * (mirrored % 4) & 255;
			pixel[i][c] = (float)byte * q.scale[c] + q.bias[c];
		}
	uint8_t *to = q.dst + y * q.dst_row + x * q.dst_pixel;
	const int64_t apart = INTERLEAVED ? 4 * q.dst_channel : q.dst_channel;
#pragma unroll
	for (int k = 0; k < 3; k++, to += apart) {
		float four[4];
#pragma unroll
		for (int i = 0; i < 4; i++)
			four[i] = INTERLEAVED ? pixel[(4 * k + i) / 3][(4 * k + i) % 3] : pixel[i][k];
		store_four(to, four, q.dtype);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) pass_rows(const __grid_constant__ stk_pass_gpu_view v)
{
	const stk_pass_gpu_item &it = find_item(v);
	const quads q = find_quads(v, it);
	const uint32_t across = (uint32_t)it.axis[0].size / 4, n = across * (uint32_t)it.axis[1].size;
	const uint32_t first = (blockIdx.x - it.block0[v.launch]) * STK_PASS_GPU_QUADS + threadIdx.x;
	uint32_t word[QUADS][3];
	int32_t x[QUADS], y[QUADS];
#pragma unroll
	for (int k = 0; k < QUADS; k++) {
		uint32_t i = min(first + k * THREADS, n - 1);
		y[k] = i / across;
		x[k] = 4 * (i - y[k] * across);
		int32_t column = q.step > 0 ? q.column + x[k] : q.column - x[k] - 3;
		const uint32_t *from = (const uint32_t *)(q.src + (q.row + q.down * y[k]) * q.src_row + column * 3);
#pragma unroll
		for (int j = 0; j < 3; j++)
			word[k][j] = __ldg(from + j);
	}
#pragma unroll
	for (int k = 0; k < QUADS; k++) {
		if (first + k * THREADS >= n)
			break;
		if (q.dst_pixel == q.dst_channel * 3)
			make_quad<true>(q, word[k], x[k], y[k]);
		else
			make_quad<false>(q, word[k], x[k], y[k]);
	}
}
