/* SPDX-License-Identifier: Apache-2.0
 * The work of a thread block on a job over images of bytes (kernel/image/image.h): it makes the pixels of its part in shared memory. Then either its kernel
 * stores them, or the kernel of a pass over the image computes its outputs from them (kernel/pass/pass_gpu_made.cu). All threads of
 * a block take the same branch for a kind of job. */
#ifndef STK_KERNEL_IMAGE_GPU_CUH
#define STK_KERNEL_IMAGE_GPU_CUH

#include "kernel/common/cuda.cuh"
#include "kernel/equalize/equalize_element.h"
#include "kernel/image/image.h"
#include "kernel/job/job_gpu.h"

#define VALUES STK_JOB_IMAGE_VALUES
#define BINS STK_EQUALIZE_BINS

enum { IMAGE_THREADS = STK_JOB_THREADS };

static_assert(IMAGE_THREADS == BINS, "a thread makes an entry of a table");
static_assert(VALUES == 48 * IMAGE_THREADS, "a thread maps three vectors of 16 bytes, the first of which begins with the first channel");

/* The part of a job that one thread block makes. */
struct part {
	const uint8_t *src;      /* address of the frame's first pixel */
	int64_t at;              /* index of the part's first value among those of all frames */
	int32_t frame, first, n; /* the part has pixels first .. first + n - 1 of the frame */
	uint32_t block;          /* index of the block in the frame */
	bool vectors;            /* the frame's address is a multiple of 16, so pixels can be loaded as vectors of 16 bytes */
};

static __device__ __forceinline__ part find_part(const stk_job &job, const stk_job_image &im, uint32_t block)
{
	uint32_t frame = block / im.blocks, of_frame = block - frame * im.blocks;
	int64_t at = (int64_t)frame * im.pixels * im.channels;
	part p = {job.src[0] + at, 0, (int32_t)frame, (int32_t)(of_frame * im.block_pixels), 0, of_frame, false};
	p.at = at + (int64_t)p.first * im.channels;
	p.n = min(im.block_pixels, im.pixels - p.first);
	p.vectors = ((uint64_t)p.src & 15) == 0;
	return p;
}

/* VECTORS vectors of 16 bytes, which a thread holds in registers. */
template <int VECTORS> struct chunk {
	uint32_t word[4 * VECTORS];

	__device__ __forceinline__ int32_t get(int i) const
	{
		return word[i / 4] >> 8 * (i % 4) & 255;
	}
};

template <int VECTORS> static __device__ __forceinline__ chunk<VECTORS> load(const uint8_t *from)
{
	chunk<VECTORS> c;
#pragma unroll
	for (int i = 0; i < VECTORS; i++) {
		uint4 four = __ldg((const uint4 *)from + i);
		c.word[4 * i] = four.x;
		c.word[4 * i + 1] = four.y;
		c.word[4 * i + 2] = four.z;
		c.word[4 * i + 3] = four.w;
	}
	return c;
}

template <int VECTORS> static __device__ __forceinline__ void store(uint8_t *to, const chunk<VECTORS> &c)
{
#pragma unroll
	for (int i = 0; i < VECTORS; i++)
		((uint4 *)to)[i] = make_uint4(c.word[4 * i], c.word[4 * i + 1], c.word[4 * i + 2], c.word[4 * i + 3]);
}

/* ---- lookups ---- */

/* Sets `made` to the values of a part, value i of which is mapped by table i % C. Calls make_tables while the values are being loaded. */
template <int C, typename F>
static __device__ __forceinline__ void map_values(const part &p, int32_t channels, const uint8_t *tables, uint8_t *made, F make_tables)
{
	const uint8_t *from = p.src + (int64_t)p.first * channels;
	const int32_t n = p.n * channels, first = 48 * threadIdx.x;
	const bool whole = p.vectors && first + 48 <= n;
	chunk<3> values;
	if (whole)
		values = load<3>(from + first);
	make_tables();
	__syncthreads();
	if (whole) {
#pragma unroll
		for (int k = 0; k < 12; k++) {
			uint32_t word = 0;
#pragma unroll
			for (int b = 0; b < 4; b++)
				word |= (uint32_t)tables[BINS * ((4 * k + b) % C) + values.get(4 * k + b)] << 8 * b;
			values.word[k] = word;
		}
		store<3>(made + first, values);
		return;
	}
	for (int32_t i = first; i < min(first + 48, n); i++)
		made[i] = tables[BINS * (i % C) + __ldg(from + i)];
}

/* ---- jobs that make pixels one by one ---- */

/* The position (x, y) of the pixel that a thread makes next, and the step (across, down) to the thread's pixel after that. */
struct walk {
	int32_t x, y, width, across, down;

	__device__ __forceinline__ void advance()
	{
		x += across;
		y += down + (x >= width);
		x -= x >= width ? width : 0;
	}
};

/* Makes the pixels of a part in `made` with make(x, y, to). Adjacent threads make adjacent pixels. A thread begins N pixels before it waits for the first. */
template <int C, int N, typename F> static __device__ __forceinline__ void make_pixels(const part &p, int32_t width, uint8_t *made, F make)
{
	int32_t at = p.first + (int32_t)threadIdx.x, y = at / width, down = IMAGE_THREADS / width, i = threadIdx.x;
	walk w = {at - y * width, y, width, IMAGE_THREADS - down * width, down};
	for (; i + (N - 1) * IMAGE_THREADS < p.n; i += N * IMAGE_THREADS)
#pragma unroll
		for (int k = 0; k < N; k++, w.advance())
			make(w.x, w.y, made + C * (i + k * IMAGE_THREADS));
#pragma unroll 1
	for (; i < p.n; i += IMAGE_THREADS, w.advance())
		make(w.x, w.y, made + C * i);
}

template <int C> static __device__ __forceinline__ void move_nearest(const part &p, const stk_transform &t, uint8_t *made)
{
	const int32_t ax = (int32_t)t.m[0], bx = (int32_t)t.m[1], cx = (int32_t)t.m[2], ay = (int32_t)t.m[3], by = (int32_t)t.m[4],
		      cy = (int32_t)t.m[5];
	const uint32_t width = (uint32_t)t.width << STK_TRANSFORM_NN_BITS, height = (uint32_t)t.height << STK_TRANSFORM_NN_BITS;
	const int32_t line = t.width * C;
	uint8_t fill[C];
#pragma unroll
	for (int c = 0; c < C; c++)
		fill[c] = t.fill[t.n_fills > 1 ? c : 0];
	make_pixels<C, 4>(p, t.width, made, [&](int32_t x, int32_t y, uint8_t *to) {
		uint32_t at_x = (uint32_t)(ax * x + bx * y + cx), at_y = (uint32_t)(ay * x + by * y + cy);
		bool inside = at_x < width && at_y < height; /* negative positions are large as unsigned numbers */
		const uint8_t *from =
			p.src + (inside ? (int64_t)(at_y >> STK_TRANSFORM_NN_BITS) * line + (at_x >> STK_TRANSFORM_NN_BITS) * C : 0);
#pragma unroll
		for (int c = 0; c < C; c++)
			to[c] = inside ? __ldg(from + c) : fill[c];
	});
}

static __device__ __forceinline__ uint8_t sharp_value(int32_t around, int32_t middle, float factor)
{
	return (uint8_t)stk__enhance_mix(stk__enhance_smooth(around, middle), middle, factor);
}

/* Returns the four sharpened values of a word. word: its address in the frame; in_row: index of its first value in its row of `line` values. Also reads the
 * words around it, in three rows. Each sum of one value from each of the three rows is used for three outputs. */
template <int C> static __device__ __forceinline__ uint32_t sharpen_word(const uint32_t *word, int32_t line, int32_t in_row, float factor)
{
	int32_t column[12] = {}; /* sums of three rows for each of 12 bytes, from the four before the word on */
#pragma unroll
	for (int row = -1; row <= 1; row++)
#pragma unroll
		for (int k = -1; k <= 1; k++) {
			bool exists = in_row + 4 * k >= 0 && in_row + 4 * k < line;
			uint32_t four = exists ? __ldg(word + row * (line / 4) + k) : 0;
#pragma unroll
			for (int b = 0; b < 4; b++)
				column[4 * (k + 1) + b] += four >> 8 * b & 255;
		}
	uint32_t made = __ldg(word);
#pragma unroll
	for (int b = 0; b < 4; b++) {
		int32_t middle = made >> 8 * b & 255, around = column[4 + b - C] + column[4 + b] + column[4 + b + C] - middle;
		bool inside = in_row + b >= C && in_row + b < line - C;
		uint32_t sharp = inside ? sharp_value(around, middle, factor) : middle;
		made = (made & ~(255u << 8 * b)) | sharp << 8 * b;
	}
	return made;
}

/* Sets `made` to a part's pixels, each mixed with a weighted mean of its 3 x 3 neighbourhood, except at the image's edges. Works on words if rows are
 * whole, aligned words. */
template <int C> static __device__ __forceinline__ void sharpen(const part &p, const stk_enhance &e, uint8_t *made)
{
	const int32_t width = e.width, height = e.height, line = e.width * C;
	const float factor = e.step[0].factor;
	if (p.vectors && line % 4 == 0) {
#pragma unroll 1
		for (int32_t i = 4 * threadIdx.x; i < p.n * C; i += 4 * IMAGE_THREADS) {
			int32_t at = p.first * C + i, y = at / line;
			const uint32_t *word = (const uint32_t *)(const void *)(p.src + at);
			bool inside = y > 0 && y < height - 1;
			*(uint32_t *)(void *)(made + i) = inside ? sharpen_word<C>(word, line, at - y * line, factor) : __ldg(word);
		}
		return;
	}
	make_pixels<C, 1>(p, width, made, [&](int32_t x, int32_t y, uint8_t *to) {
		const uint8_t *from = p.src + (int64_t)y * line + x * C;
		bool inside = x > 0 && y > 0 && x < width - 1 && y < height - 1;
#pragma unroll
		for (int c = 0; c < C; c++, from++) {
			int32_t middle = __ldg(from), around = -middle;
#pragma unroll
			for (int k = 0; k < 9 && inside; k++)
				around += __ldg(from + (k / 3 - 1) * line + (k % 3 - 1) * C);
			to[c] = inside ? sharp_value(around, middle, factor) : (uint8_t)middle;
		}
	});
}

template <int C> static __device__ __forceinline__ void saturate(const part &p, const stk_enhance &e, uint8_t *made)
{
	const float factor = e.step[0].factor;
	make_pixels<C, 2>(p, e.width, made, [&](int32_t x, int32_t y, uint8_t *to) {
		const uint8_t *from = p.src + (int64_t)C * (y * e.width + x);
		int32_t pixel[3] = {__ldg(from), __ldg(from + C / 2), __ldg(from + C - 1)}, luma = stk__enhance_luma(pixel);
#pragma unroll
		for (int c = 0; c < C; c++)
			to[c] = (uint8_t)stk__enhance_mix(luma, pixel[c], factor);
	});
}

/* ---- parts of jobs of any kind ---- */

template <int C> static __device__ __forceinline__ void map_image(const stk_job &job, const part &p, uint8_t *made)
{
	__shared__ uint8_t tables[BINS * C];
	const stk_enhance_step &step = STK_PARAMS(stk_enhance, &job).step[0];
	if (job.kind == STK_JOB_equalize) {
		map_values<C>(p, C, tables, made, [&]() {
			const uint8_t *from = (const uint8_t *)job.work + (int64_t)p.frame * C * BINS;
#pragma unroll
			for (int c = 0; c < C; c++)
				tables[BINS * c + threadIdx.x] = from[BINS * c + threadIdx.x];
		});
		return;
	}
	/* All channels are mapped by the same table, so the channel of a value does not matter. */
	map_values<1>(p, job.kind == STK_JOB_pointwise ? 1 : C, tables, made, [&]() {
		if (job.kind == STK_JOB_pointwise) {
			tables[threadIdx.x] = ((const uint8_t *)job.constants)[threadIdx.x];
			return;
		}
		int32_t degenerate = step.kind == STK_ENHANCE_CONTRAST ? ((const int32_t *)job.work)[p.frame] : 0;
		tables[threadIdx.x] = (uint8_t)stk__enhance_mix(degenerate, threadIdx.x, step.factor);
	});
}

template <int C> static __device__ __forceinline__ void make_image(const stk_job &job, const part &p, uint8_t *made)
{
	if (job.kind == STK_JOB_transform)
		move_nearest<C>(p, STK_PARAMS(stk_transform, &job), made);
	else if (job.kind == STK_JOB_enhance && STK_PARAMS(stk_enhance, &job).step[0].kind == STK_ENHANCE_SHARPNESS)
		sharpen<C>(p, STK_PARAMS(stk_enhance, &job), made);
	else if (job.kind == STK_JOB_enhance && STK_PARAMS(stk_enhance, &job).step[0].kind == STK_ENHANCE_SATURATION)
		saturate<C>(p, STK_PARAMS(stk_enhance, &job), made);
	else
		map_image<C>(job, p, made);
}

/* Makes the pixels of a part in `made`: at most VALUES bytes, aligned to 16. mixes() in image.c must be false for the job. All threads of a block must call
 * this, and may read the result after the next barrier. */
static __device__ __forceinline__ void make_part(const stk_job &job, const part &p, const stk_job_image &im, uint8_t *made)
{
	if (im.channels == 3)
		make_image<3>(job, p, made);
	else
		make_image<1>(job, p, made);
}

#endif
