/* SPDX-License-Identifier: Apache-2.0
 * Recipes on the GPU (recipe.h): a thread block finds its sample, copies its values from tables, draws its random numbers, and writes the image, if
 * there are images. A thread writes four adjacent elements at a time, or the twelve of four pixels. The arithmetic is that of passes (pass_gpu.cuh). */
#include "kernel/pass/pass_gpu.cuh"
#include "kernel/recipe/recipe_hd.h"

#define RECIPE_THREADS STK_RECIPE_THREADS
#define STAGED 12288 /* bytes of the largest image that is copied to shared memory: 64 x 64 pixels of 3 channels */

/* The image that a thread block makes. x and y map pixels of the output to pixels of the source. */
struct picture {
	stk_axis_map x, y;
	int32_t pixel, row; /* sizes in bytes of a pixel and of a row of the source */
	const uint8_t *from;
	uint8_t *to;
};

/* The constants of each channel for STK_RECIPE_AFFINE. They are in shared memory, since a thread selects them by the channel of each element. */
struct constants {
	float scale[STK_RECIPE_CHANNELS], bias[STK_RECIPE_CHANNELS], fill[STK_RECIPE_CHANNELS];
};

static __device__ __forceinline__ uint32_t divide(const stk_recipe_divisor &d, uint32_t x)
{
	return d.factor ? (uint32_t)((uint64_t)x * d.factor >> 32) : x;
}

static __device__ __forceinline__ bool holds(const stk_axis_map &m, int32_t at)
{
	return at >= m.low && at < m.high;
}

/* Returns v, a value of channel c, after all steps of the pass, none of which mixes channels. valid: false if the pixel is outside of the source. */
static __device__ __forceinline__ float by_steps(const stk_pass &p, float v, int c, bool valid)
{
	int32_t channels = p.in_c;
	for (int32_t i = 0; i < p.n_steps; i++) {
		const stk_step &step = p.steps[i];
		v = step_one(step, v, c, channels, valid);
		valid |= step.kind == STK_STEP_FILL;
		channels = step.channels;
		if (step.kind != STK_STEP_FILL && c < channels)
			v = round_to(v, step.dtype);
	}
	return v;
}

struct spot {
	int32_t x, y, c;
};

template <bool PLANAR> static __device__ __forceinline__ spot find_spot(const stk_recipe_batch &b, uint32_t e)
{
	spot s;
	uint32_t outer = divide(b.outer, e), rest = e - outer * b.outer.n, inner = divide(b.inner, rest), last = rest - inner * b.inner.n;
	s.c = (int32_t)(PLANAR ? outer : last);
	s.y = (int32_t)(PLANAR ? inner : outer);
	s.x = (int32_t)(PLANAR ? last : inner);
	return s;
}

/* Changes s to the next element in the order of the output's memory. */
template <bool PLANAR> static __device__ __forceinline__ void step_on(const stk_pass &p, spot &s)
{
	if (PLANAR) {
		if (++s.x < p.w)
			return;
		s.x = 0;
		if (++s.y < p.h)
			return;
		s.y = 0;
		s.c++;
	} else {
		if (++s.c < p.c)
			return;
		s.c = 0;
		if (++s.x < p.w)
			return;
		s.x = 0;
		s.y++;
	}
}

static __device__ __forceinline__ float by_affine(const stk_recipe_batch &b, const constants &k, float v, int32_t c, bool valid)
{
	float fill = k.fill[c];
	v = valid || !b.fill_before ? v : fill;
	v = v * k.scale[c] + k.bias[c];
	return valid || b.fill_before ? v : fill;
}

template <bool STEPS>
static __device__ __forceinline__ float make_element(
	const stk_recipe_batch &b, const stk_pass &p, const picture &pic, const constants &k, const spot &s)
{
	int32_t x = map(pic.x, s.x), y = map(pic.y, s.y);
	bool valid = holds(pic.x, x) && holds(pic.y, y);
	float v = valid && s.c < p.in_c ? (float)pic.from[y * pic.row + x * pic.pixel + s.c] : 0;
	return STEPS ? by_steps(p, v, s.c, valid) : by_affine(b, k, v, s.c, valid);
}

template <int DTYPE> static __device__ __forceinline__ void store4(uint8_t *to, const float v[4])
{
	if constexpr (DTYPE == STK_FLOAT) {
		*(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
	} else if constexpr (DTYPE == STK_UINT8) {
		uint8_t e[4];
#pragma unroll
		for (int i = 0; i < 4; i++)
			store(&e[i], v[i], DTYPE);
		*(uchar4 *)to = make_uchar4(e[0], e[1], e[2], e[3]);
	} else {
		uint16_t e[4];
#pragma unroll
		for (int i = 0; i < 4; i++)
			store((uint8_t *)&e[i], v[i], DTYPE);
		*(ushort4 *)to = make_ushort4(e[0], e[1], e[2], e[3]);
	}
}

template <int DTYPE, bool PLANAR, bool STEPS>
static __device__ __forceinline__ void write(const stk_recipe_batch &b, const stk_pass &pass, const picture &pic, const constants &k)
{
	const int size = DTYPE == STK_FLOAT ? 4 : DTYPE == STK_UINT8 ? 1 : 2;
	bool whole = (b.elements & 3) == 0;
	for (uint32_t e = 4 * threadIdx.x; e < b.elements; e += 4 * RECIPE_THREADS) {
		spot s = find_spot<PLANAR>(b, e);
		float v[4];
#pragma unroll
		for (int i = 0; i < 4; i++) {
			v[i] = e + i < b.elements ? make_element<STEPS>(b, pass, pic, k, s) : 0;
			step_on<PLANAR>(pass, s);
		}
		if (whole) {
			store4<DTYPE>(pic.to + (size_t)e * size, v);
			continue;
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (e + i < b.elements)
				store(pic.to + (size_t)(e + i) * size, v[i], DTYPE);
	}
}

/* The usual images have three channels and a width that is a multiple of four. If the finish is affine and makes floats, a thread then computes the
 * position of a quad (four pixels) once for its twelve values. */
#define QUAD 4
#define COLORS 3

static __device__ __forceinline__ bool has_quads(const stk_recipe_batch &b, const stk_pass &p)
{
	return b.finish == STK_RECIPE_AFFINE && p.c == COLORS && p.in_c == COLORS && p.w % QUAD == 0;
}

template <int DTYPE, bool PLANAR>
static __device__ __forceinline__ void write_quads(const stk_recipe_batch &b, const stk_pass &p, const picture &pic, const constants &k)
{
	const int size = DTYPE == STK_FLOAT ? 4 : 2;
	uint32_t across = (uint32_t)p.w / QUAD, quads = across * (uint32_t)p.h;
	for (uint32_t q = threadIdx.x; q < quads; q += RECIPE_THREADS) {
		uint32_t row = q / across;
		int32_t x0 = QUAD * (int32_t)(q - row * across), y = map(pic.y, (int32_t)row);
		bool inside = holds(pic.y, y);
		float v[QUAD * COLORS];
#pragma unroll
		for (int i = 0; i < QUAD; i++) {
			int32_t x = map(pic.x, x0 + i);
			bool valid = inside && holds(pic.x, x);
			const uint8_t *from = pic.from + y * pic.row + x * pic.pixel;
#pragma unroll
			for (int c = 0; c < COLORS; c++)
				v[PLANAR ? c * QUAD + i : i * COLORS + c] = by_affine(b, k, valid ? (float)from[c] : 0, c, valid);
		}
#pragma unroll
		for (int i = 0; i < COLORS; i++) {
			uint32_t at = PLANAR ? i * quads + q : COLORS * q + i;
			store4<DTYPE>(pic.to + (size_t)at * QUAD * size, v + QUAD * i);
		}
	}
}

template <int DTYPE>
static __device__ __forceinline__ void write_type(const stk_recipe_batch &b, const stk_pass &pass, const picture &pic, const constants &k)
{
	if (DTYPE != STK_UINT8 && has_quads(b, pass)) {
		if (b.planar)
			write_quads<DTYPE, true>(b, pass, pic, k);
		else
			write_quads<DTYPE, false>(b, pass, pic, k);
	} else if (DTYPE != STK_UINT8 && b.finish == STK_RECIPE_AFFINE) {
		if (b.planar)
			write<DTYPE, true, false>(b, pass, pic, k);
		else
			write<DTYPE, false, false>(b, pass, pic, k);
	} else if (b.planar) {
		write<DTYPE, true, true>(b, pass, pic, k);
	} else {
		write<DTYPE, false, true>(b, pass, pic, k);
	}
}

static __device__ __forceinline__ void copy_tables(const stk_recipe_batch &b, int32_t sample, int64_t id)
{
	for (int32_t t = 0; t < b.n_tables; t++) {
		uint32_t bytes = b.tables[t].bytes;
		const uint8_t *from = b.tables[t].from + (size_t)id * bytes;
		uint8_t *to = b.tables[t].to + (size_t)sample * bytes;
		if (bytes % 4 == 0)
			for (uint32_t i = threadIdx.x; i < bytes / 4; i += RECIPE_THREADS)
				((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
		else
			for (uint32_t i = threadIdx.x; i < bytes; i += RECIPE_THREADS)
				to[i] = from[i];
	}
}

/* Copies source image `id` to `shared` if it fits and its size is a multiple of 16. Returns the address of the copy, or else of the image itself. */
static __device__ __forceinline__ const uint8_t *stage(const stk_recipe_batch &b, int64_t id, uint4 *shared)
{
	const uint8_t *from = b.images + id * b.image_bytes;
	if (b.image_bytes > STAGED || b.image_bytes % 16)
		return from;
	for (uint32_t i = threadIdx.x; i < (uint32_t)b.image_bytes / 16; i += RECIPE_THREADS)
		shared[i] = __ldg((const uint4 *)from + i);
	__syncthreads();
	return (const uint8_t *)shared;
}

static __device__ __forceinline__ void take_constants(const stk_recipe_batch &b, const stk_pass &p, int32_t c, constants &k)
{
	int32_t affine = p.has_fill && b.fill_before, fill = b.fill_before ? 0 : 1;
	k.scale[c] = b.finish == STK_RECIPE_AFFINE ? p.steps[affine].scale[c] : 0;
	k.bias[c] = b.finish == STK_RECIPE_AFFINE ? p.steps[affine].bias[c] : 0;
	k.fill[c] = b.finish == STK_RECIPE_AFFINE && p.has_fill ? p.steps[fill].value[c] : 0;
}

extern "C" __global__ void __launch_bounds__(RECIPE_THREADS) recipe_run(const __grid_constant__ stk_recipe_batch b)
{
	__shared__ int64_t id;
	__shared__ stk_axis_map pre[2];
	__shared__ constants k;
	__shared__ uint4 staged[STAGED / 16];
	int32_t sample = (int32_t)blockIdx.x, thread = (int32_t)threadIdx.x;
	const stk_recipe_run &run = *stk__recipe_find_run(&b, sample);
	int64_t position = stk__recipe_position(&run, sample);
	if (thread == 0) /* different warps find the sample, draw its random numbers, and load the constants, at the same time */
		id = stk__recipe_id(&b, &run, position);
	if (thread == 32 && b.recipe)
		stk__recipe_place(b.recipe, run.epoch, (uint64_t)position, pre);
	if (thread >= 64 && thread < 64 + STK_RECIPE_CHANNELS && b.recipe)
		take_constants(b, b.recipe->pass, thread - 64, k);
	__syncthreads();
	copy_tables(b, sample, id);
	if (!b.recipe)
		return;
	const stk_pass &p = b.recipe->pass;
	int32_t size = p.dtype == STK_FLOAT ? 4 : p.dtype == STK_UINT8 ? 1 : 2;
	picture pic = {pre[0], pre[1], p.in_c, p.in_w * p.in_c, stage(b, id, staged), b.to + (size_t)sample * b.elements * size};
	switch (p.dtype) {
	case STK_FLOAT:
		write_type<STK_FLOAT>(b, p, pic, k);
		break;
	case STK_FLOAT16:
		write_type<STK_FLOAT16>(b, p, pic, k);
		break;
	case STK_BFLOAT16:
		write_type<STK_BFLOAT16>(b, p, pic, k);
		break;
	default:
		write_type<STK_UINT8>(b, p, pic, k);
	}
}
