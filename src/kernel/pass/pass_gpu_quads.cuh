/* SPDX-License-Identifier: Apache-2.0
 * Quads: four adjacent pixels of three bytes, which one thread processes and stores together. */
#ifndef STK_KERNEL_PASS_GPU_QUADS_CUH
#define STK_KERNEL_PASS_GPU_QUADS_CUH

#include "kernel/common/span.cuh"
#include "kernel/pass/pass_gpu.cuh"

#define QUADS (STK_PASS_GPU_QUADS / THREADS) /* quads per thread */

/* The parameters for finishing a quad. They are copied to registers, since the compiler must assume that stores change the originals. */
struct ending {
	int32_t form, dtype;
	bool mirrored, interleaved;
	uint32_t fill; /* the fill value of a pixel, in the three lowest bytes */
	float factor[9], bias[3];
};

static __device__ __forceinline__ ending make_ending(const stk_pass_gpu_view &v, const stk_pass_gpu_item &it)
{
	const stk_step *step = &v.steps[it.step0];
	ending e = {it.form, it.dtype, it.axis[0].pre.step < 0, it.dst_pixel == 3 * it.dst_channel, 0, {}, {}};
	if (it.fills) {
		e.fill = (uint32_t)step->value[0] | (uint32_t)step->value[1] << 8 | (uint32_t)step->value[2] << 16;
		step++;
	}
	if (e.form == STK_PASS_GPU_FORM_MATRIX) {
#pragma unroll
		for (int i = 0; i < 9; i++)
			e.factor[i] = step->m[i];
#pragma unroll
		for (int c = 0; c < 3; c++)
			e.bias[c] = step->b[c];
	} else if (e.form == STK_PASS_GPU_FORM_AFFINE) {
#pragma unroll
		for (int c = 0; c < 3; c++) {
			e.factor[c] = step->scale[c];
			e.bias[c] = step->bias[c];
		}
	}
	return e;
}

/* The source pixels from which outputs (x, y) to (x + 3, y) are made, in the order of the source. */
struct quad {
	stk_span<12> bytes;
	int32_t x, y;
};

/* Sets `word` to the twelve bytes of the quad, in the order of the output. */
static __device__ __forceinline__ void straighten(const quad &q, bool mirrored, uint32_t (&word)[3])
{
	stk__span_align(q.bytes, word);
	if (mirrored) {
		uint32_t first = __byte_perm(word[1], word[2], 0x2765), last = __byte_perm(word[0], word[1], 0x2105);
		word[1] = __byte_perm(__byte_perm(word[1], word[2], 0x0043), __byte_perm(word[0], word[1], 0x0043), 0x5410);
		word[0] = first;
		word[2] = last;
	}
}

/* Computes the quad's values before they are rounded to the output's type. Channel c of pixel i is value 3 * i + c. */
static __device__ __forceinline__ void transform(const ending &e, const uint32_t (&word)[3], float (&value)[12])
{
#pragma unroll
	for (int k = 0; k < 12; k++)
		value[k] = (float)(word[k / 4] >> 8 * (k % 4) & 255);
	if (e.form == STK_PASS_GPU_FORM_AFFINE) {
#pragma unroll
		for (int k = 0; k < 12; k++)
			value[k] = value[k] * e.factor[k % 3] + e.bias[k % 3];
	} else if (e.form == STK_PASS_GPU_FORM_MATRIX) {
#pragma unroll
		for (int i = 0; i < 12; i += 3) {
			float a = value[i], b = value[i + 1], d = value[i + 2];
#pragma unroll
			for (int c = 0; c < 3; c++)
				value[i + c] = e.factor[3 * c] * a + e.factor[3 * c + 1] * b + e.factor[3 * c + 2] * d + e.bias[c];
		}
	}
}

/* Returns the index of value i of the k-th group of four values that are stored together: adjacent values of the pixels if interleaved, otherwise one
 * channel of the four pixels. */
static __device__ __forceinline__ constexpr int value_at(bool interleaved, int k, int i)
{
	return interleaved ? 4 * k + i : 3 * i + k;
}

/* Stores four values at once, as dtype: float32, float16 or bfloat16. */
static __device__ __forceinline__ void store_floats(uint8_t *to, const float (&x)[4], int32_t dtype)
{
	if (dtype == STK_FLOAT)
		*(float4 *)to = make_float4(x[0], x[1], x[2], x[3]);
	else if (dtype == STK_FLOAT16)
		*(ushort4 *)to = make_ushort4(stk__half_bits(x[0]), stk__half_bits(x[1]), stk__half_bits(x[2]), stk__half_bits(x[3]));
	else
		*(ushort4 *)to =
			make_ushort4(stk__bfloat_bits(x[0]), stk__bfloat_bits(x[1]), stk__bfloat_bits(x[2]), stk__bfloat_bits(x[3]));
}

static __device__ __forceinline__ void fill_hole(const stk_hole &hole, const quad &q, float (&value)[12])
{
	const stk_rect &at = hole.at;
	if ((uint32_t)(q.y - at.y) >= (uint32_t)at.h || q.x + 4 <= at.x || q.x >= at.x + at.w)
		return;
#pragma unroll
	for (int k = 0; k < 12; k++)
		value[k] = (uint32_t)(q.x + k / 3 - at.x) < (uint32_t)at.w ? hole.value[k % 3] : value[k];
}

/* Computes a quad of floats and stores it. The host makes sure that no quad exceeds a row. */
template <bool INTERLEAVED> static __device__ __forceinline__ void make_floats(const stk_pass_gpu_item &it, const ending &e, const quad &q)
{
	uint32_t word[3];
	float value[12];
	straighten(q, e.mirrored, word);
	transform(e, word, value);
	fill_hole(it.hole, q, value);
	uint8_t *to = (uint8_t *)it.dst + q.y * it.dst_row + q.x * it.dst_pixel;
	const int64_t apart = INTERLEAVED ? 4 * it.dst_channel : it.dst_channel;
#pragma unroll
	for (int k = 0; k < 3; k++) {
		float four[4];
#pragma unroll
		for (int i = 0; i < 4; i++)
			four[i] = value[value_at(INTERLEAVED, k, i)];
		store_floats(to + k * apart, four, e.dtype);
	}
}

#endif
