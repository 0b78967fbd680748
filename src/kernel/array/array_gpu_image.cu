/* SPDX-License-Identifier: Apache-2.0
 * Jobs over images of bytes on the GPU (array_image.h): what a thread block does follows from its job alone, so that no thread waits for others' branches.
 * Memory is read and written 16 bytes at a time where frames are aligned. */
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/array/array_image.h"
#include "kernel/common/cuda.cuh"
#include "kernel/equalize/equalize_element.h"

#define THREADS STK_ARRAY_GPU_THREADS
#define VALUES STK_ARRAY_IMAGE_VALUES
#define BINS STK_EQUALIZE_BINS
#define CHUNK 16 /* pixels that a thread holds at a time: as many vectors of 16 bytes as they have channels */
#define COPIES 8 /* of a count: threads of a warp whose pixels are equal add to different ones */

static_assert(THREADS == BINS, "a thread makes an entry of a table");
static_assert(VALUES % (3 * CHUNK) == 0, "a thread block's first value is one of the first channel, and aligned");

/* A thread block's part of a job. */
struct part {
	const uint8_t *src; /* of the frame */
	uint8_t *dst;
	int32_t frame, first, n; /* pixels of the frame: first .. first + n - 1 */
	uint32_t block;          /* of the frame */
	bool vectors;            /* frames are aligned */
};

static __device__ __forceinline__ part find_part(const stk_array_gpu_view &v, const stk_array_gpu_item &it, const stk_array_image &im)
{
	uint32_t block = blockIdx.x - it.block0[v.launch], frame = block / im.blocks;
	int64_t at = (int64_t)frame * im.pixels * im.channels;
	part p = {it.job.src[0] + at, it.job.dst + at, (int32_t)frame, (int32_t)((block - frame * im.blocks) * im.block_pixels), 0, block - frame * im.blocks, false};
	p.n = min(im.block_pixels, im.pixels - p.first);
	p.vectors = (((uint64_t)p.src | (uint64_t)p.dst) & 15) == 0;
	return p;
}

/* Bytes that a thread holds. */
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

/* ---- measures ---- */

/* Counts the values of a part's pixels, each channel's apart. */
template <int C> static __device__ void count(const part &p, uint32_t *counts)
{
	const uint8_t *from = p.src + (int64_t)p.first * C;
	uint32_t *mine = counts + threadIdx.x % COPIES;
	int32_t done = p.vectors ? p.n / CHUNK * CHUNK : 0;
	for (int32_t i = CHUNK * threadIdx.x; i < done; i += CHUNK * THREADS) {
		chunk<C> values = load<C>(from + C * i);
#pragma unroll
		for (int k = 0; k < CHUNK * C; k++)
			atomicAdd(mine + COPIES * (BINS * (k % C) + values.get(k)), 1u);
	}
	for (int32_t i = done + threadIdx.x; i < p.n; i += THREADS)
#pragma unroll
		for (int c = 0; c < C; c++)
			atomicAdd(mine + COPIES * (BINS * c + __ldg(from + C * i + c)), 1u);
}

/* The luma of a part's pixels, of which a thread has added up its own: behind the steps before the one that measures. */
template <int C> static __device__ uint32_t add_luma(const part &p, const stk_enhance &e)
{
	const uint8_t *from = p.src + (int64_t)p.first * C;
	int32_t end = stk__enhance_measures(&e), done = p.vectors && !end ? p.n / CHUNK * CHUNK : 0;
	uint32_t sum = 0;
	for (int32_t i = CHUNK * threadIdx.x; i < done; i += CHUNK * THREADS) {
		chunk<C> values = load<C>(from + C * i);
#pragma unroll
		for (int k = 0; k < CHUNK; k++) {
			int32_t pixel[3] = {values.get(C * k), values.get(C * k + C / 2), values.get(C * k + C - 1)};
			sum += (uint32_t)stk__enhance_luma(pixel);
		}
	}
	for (int32_t i = done + threadIdx.x; i < p.n; i += THREADS) {
		int32_t pixel[3];
		stk__enhance_load(&e, from + C * i, end, 0, pixel);
		sum += (uint32_t)stk__enhance_luma(pixel);
	}
	return sum;
}

/* The sum over all threads, in all of them. It fits: 12 288 values of 255 at most, each of which a thousandfold would. */
static __device__ __forceinline__ uint32_t add_threads(uint32_t x)
{
	__shared__ uint32_t sums[THREADS / 32];
	uint32_t warp = stk__warp_sum(x), all = 0;
	if (threadIdx.x % 32 == 0)
		sums[threadIdx.x / 32] = warp;
	__syncthreads();
	for (int i = 0; i < THREADS / 32; i++)
		all += sums[i];
	return all;
}

/* The counts of all values below the thread's. */
static __device__ __forceinline__ int32_t counts_below(int32_t count)
{
	__shared__ int32_t sums[BINS / 32];
	int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, upto = count, below = 0;
#pragma unroll
	for (int by = 1; by < 32; by *= 2) {
		int32_t other = __shfl_up_sync(~0u, upto, by);
		upto += lane >= by ? other : 0;
	}
	__syncthreads(); /* sums may be read still, of the channel before */
	if (lane == 31)
		sums[warp] = upto;
	__syncthreads();
	for (int i = 0; i < warp; i++)
		below += sums[i];
	return below + upto - count;
}

/* The table of one channel: a thread counts one value, and makes its entry. */
static __device__ void make_table(const stk_equalize &e, int32_t count, int32_t n, uint8_t *table)
{
	__shared__ int32_t first, last, at_first, at_last;
	int32_t below = counts_below(count);
	if (count && below == 0) {
		first = threadIdx.x;
		at_first = count;
	}
	if (count && below + count == n) {
		last = threadIdx.x;
		at_last = count;
	}
	__syncthreads();
	stk_equalize_range r = {n, first, last, at_first, at_last};
	table[threadIdx.x] = stk__equalize_entry(e.table, &r, threadIdx.x, below, count);
	__syncthreads();
}

/* True in all threads of the block that comes last of its frame: what all of them have written is there. */
static __device__ __forceinline__ bool comes_last(uint32_t *arrived, uint32_t blocks)
{
	__shared__ bool last;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(arrived, 1u) == blocks - 1;
	__syncthreads();
	__threadfence();
	return last;
}

static __device__ __forceinline__ uint32_t add_blocks(const volatile uint32_t *measured, uint32_t step, uint32_t blocks)
{
	uint32_t sum = 0;
#pragma unroll 8
	for (uint32_t b = 0; b < blocks; b++)
		sum += measured[b * step];
	return sum;
}

static __device__ void measure_counts(const stk_array_job &job, const part &p, const stk_array_image &im, uint32_t *measured)
{
	__shared__ __align__(16) uint32_t counts[STK_ARRAY_IMAGE_CHANNELS * BINS * COPIES];
	const stk_equalize e = job.equalize;
	for (int i = threadIdx.x; i < im.channels * BINS * COPIES / 4; i += THREADS)
		((uint4 *)counts)[i] = make_uint4(0, 0, 0, 0);
	__syncthreads();
	if (im.channels == 3)
		count<3>(p, counts);
	else
		count<1>(p, counts);
	__syncthreads();
	for (int32_t i = threadIdx.x; i < im.channels * BINS; i += THREADS) {
		uint32_t sum = 0;
#pragma unroll
		for (int k = 0; k < COPIES; k++)
			sum += counts[COPIES * i + k];
		measured[p.block * im.measured + i] = sum;
	}
	if (!comes_last((uint32_t *)job.constants + p.frame, im.blocks))
		return;
	uint8_t *tables = (uint8_t *)job.work + (int64_t)p.frame * im.channels * BINS;
	for (int32_t c = 0; c < im.channels; c++)
		make_table(e, (int32_t)add_blocks(measured + c * BINS + threadIdx.x, im.measured, im.blocks), im.pixels, tables + c * BINS);
}

static __device__ void measure_luma(const stk_array_job &job, const part &p, const stk_array_image &im, uint32_t *measured)
{
	const stk_enhance e = job.enhance;
	uint32_t sum = add_threads(im.channels == 3 ? add_luma<3>(p, e) : add_luma<1>(p, e));
	if (threadIdx.x == 0)
		measured[p.block] = sum;
	if (!comes_last((uint32_t *)job.constants + p.frame, im.blocks) || threadIdx.x > 0)
		return;
	uint64_t all = 0;
	for (uint32_t b = 0; b < im.blocks; b++)
		all += *(const volatile uint32_t *)(measured + b);
	((int32_t *)job.work)[p.frame] = stk__enhance_mean(all, (uint64_t)im.pixels);
}

extern "C" __global__ void __launch_bounds__(THREADS) array_image_measure(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	stk_array_image im = stk__array_image(&it.job);
	part p = find_part(v, it, im);
	uint32_t *measured = (uint32_t *)((uint8_t *)it.job.work + stk__array_image_results(&it.job, &im)) + (int64_t)p.frame * im.blocks * im.measured;
	if (it.job.kind == STK_ARRAY_EQUALIZE)
		measure_counts(it.job, p, im, measured);
	else
		measure_luma(it.job, p, im, measured);
}

/* ---- lookups ---- */

/* Maps a part's values, one after the other, by C tables in turn. */
template <int C> static __device__ void map_values(const part &p, int32_t channels, const uint8_t *tables)
{
	const uint8_t *from = p.src + (int64_t)p.first * channels;
	uint8_t *to = p.dst + (int64_t)p.first * channels;
	int32_t n = p.n * channels, together = 3 * CHUNK, done = p.vectors ? n / together * together : 0;
	for (int32_t i = together * threadIdx.x; i < done; i += together * THREADS) {
		chunk<3> values = load<3>(from + i);
#pragma unroll
		for (int k = 0; k < 12; k++) {
			uint32_t word = 0;
#pragma unroll
			for (int b = 0; b < 4; b++)
				word |= (uint32_t)tables[BINS * ((4 * k + b) % C) + values.get(4 * k + b)] << 8 * b;
			values.word[k] = word;
		}
		store<3>(to + i, values);
	}
	for (int32_t i = done + threadIdx.x; i < n; i += THREADS)
		to[i] = tables[BINS * (i % C) + __ldg(from + i)];
}

/* ---- what is made pixel by pixel ---- */

/* Where the thread's next pixel lies. */
struct walk {
	int32_t x, y, width, across, down;

	__device__ __forceinline__ void go_on()
	{
		x += across;
		y += down + (x >= width);
		x -= x >= width ? width : 0;
	}
};

/* Writes a part's pixels, which make(x, y, to) makes: threads side by side make pixels side by side, and what they made goes out together. N: pixels that a
 * thread begins before it waits for the first. */
template <int C, int N, typename F> static __device__ __forceinline__ void make_pixels(const part &p, int32_t width, uint8_t *made, F make)
{
	uint8_t *to = p.dst + (int64_t)p.first * C;
	int32_t at = p.first + (int32_t)threadIdx.x, y = at / width, down = THREADS / width, i = threadIdx.x;
	walk w = {at - y * width, y, width, THREADS - down * width, down};
	for (; i + (N - 1) * THREADS < p.n; i += N * THREADS)
#pragma unroll
		for (int k = 0; k < N; k++, w.go_on())
			make(w.x, w.y, made + C * (i + k * THREADS));
#pragma unroll 1
	for (; i < p.n; i += THREADS, w.go_on())
		make(w.x, w.y, made + C * i);
	__syncthreads();
	int32_t n = p.n * C, done = p.vectors ? n / 16 * 16 : 0;
	for (i = 16 * threadIdx.x; i < done; i += 16 * THREADS)
		*(uint4 *)(to + i) = *(const uint4 *)(made + i);
	for (i = done + threadIdx.x; i < n; i += THREADS)
		to[i] = made[i];
}

template <int C> static __device__ __forceinline__ void move_nearest(const part &p, const stk_transform &t, uint8_t *made)
{
	const int32_t ax = (int32_t)t.m[0], bx = (int32_t)t.m[1], cx = (int32_t)t.m[2], ay = (int32_t)t.m[3], by = (int32_t)t.m[4], cy = (int32_t)t.m[5];
	const uint32_t width = (uint32_t)t.width << STK_TRANSFORM_NN_BITS, height = (uint32_t)t.height << STK_TRANSFORM_NN_BITS;
	const int32_t line = t.width * C;
	uint8_t fill[C];
#pragma unroll
	for (int c = 0; c < C; c++)
		fill[c] = t.fill[t.n_fills > 1 ? c : 0];
	make_pixels<C, 4>(p, t.width, made, [&](int32_t x, int32_t y, uint8_t *to) {
		uint32_t at_x = (uint32_t)(ax * x + bx * y + cx), at_y = (uint32_t)(ay * x + by * y + cy);
		bool inside = at_x < width && at_y < height; /* what is negative is large */
		const uint8_t *from = p.src + (inside ? (int64_t)(at_y >> STK_TRANSFORM_NN_BITS) * line + (at_x >> STK_TRANSFORM_NN_BITS) * C : 0);
#pragma unroll
		for (int c = 0; c < C; c++)
			to[c] = inside ? __ldg(from + c) : fill[c];
	});
}

/* The middle of each 3 x 3 pixels mixed with their mean. */
template <int C> static __device__ __forceinline__ void sharpen(const part &p, const stk_enhance &e, uint8_t *made)
{
	const int32_t width = e.width, height = e.height, line = e.width * C;
	const float factor = e.step[0].factor;
	make_pixels<C, 1>(p, width, made, [&](int32_t x, int32_t y, uint8_t *to) {
		const uint8_t *from = p.src + (int64_t)y * line + x * C;
		bool inside = x > 0 && y > 0 && x < width - 1 && y < height - 1;
		int32_t above = inside ? -line : 0, beside = inside ? C : 0;
#pragma unroll
		for (int c = 0; c < C; c++, from++) {
			int32_t middle = __ldg(from), around = __ldg(from - beside) + __ldg(from + beside);
			around += __ldg(from + above - beside) + __ldg(from + above) + __ldg(from + above + beside);
			around += __ldg(from - above - beside) + __ldg(from - above) + __ldg(from - above + beside);
			to[c] = (uint8_t)(inside ? stk__enhance_mix(stk__enhance_smooth(around, middle), middle, factor) : middle);
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

/* ---- jobs ---- */

/* True: `table` has what the job maps values by, or the three tables. */
static __device__ __forceinline__ bool make_tables(const stk_array_job &job, const part &p, int32_t channels, uint8_t *table)
{
	const stk_enhance_step &step = job.enhance.step[0];
	if (job.kind == STK_ARRAY_POINTWISE) {
		table[threadIdx.x] = ((const uint8_t *)job.constants)[threadIdx.x];
	} else if (job.kind == STK_ARRAY_EQUALIZE) {
		for (int32_t i = threadIdx.x; i < channels * BINS; i += THREADS)
			table[i] = ((const uint8_t *)job.work)[(int64_t)p.frame * channels * BINS + i];
	} else if (job.kind == STK_ARRAY_ENHANCE && (step.kind == STK_ENHANCE_BRIGHTNESS || step.kind == STK_ENHANCE_CONTRAST)) {
		int32_t degenerate = step.kind == STK_ENHANCE_CONTRAST ? ((const int32_t *)job.work)[p.frame] : 0;
		table[threadIdx.x] = (uint8_t)stk__enhance_mix(degenerate, threadIdx.x, step.factor);
	} else {
		return false;
	}
	__syncthreads();
	return true;
}

template <int C> static __device__ __forceinline__ void make_image(const stk_array_job &job, const part &p, uint8_t *made)
{
	if (job.kind == STK_ARRAY_TRANSFORM)
		move_nearest<C>(p, job.transform, made);
	else if (job.enhance.step[0].kind == STK_ENHANCE_SHARPNESS)
		sharpen<C>(p, job.enhance, made);
	else
		saturate<C>(p, job.enhance, made);
}

extern "C" __global__ void __launch_bounds__(THREADS, 5) array_image(const __grid_constant__ stk_array_gpu_view v)
{
	__shared__ uint8_t tables[STK_ARRAY_IMAGE_CHANNELS * BINS];
	__shared__ __align__(16) uint8_t made[VALUES];
	const stk_array_gpu_item &it = v.items[find_item(v)];
	stk_array_image im = stk__array_image(&it.job);
	part p = find_part(v, it, im);
	if (make_tables(it.job, p, im.channels, tables)) {
		if (it.job.kind == STK_ARRAY_EQUALIZE && im.channels == 3)
			map_values<3>(p, 3, tables);
		else
			map_values<1>(p, im.channels, tables);
	} else if (im.channels == 3) {
		make_image<3>(it.job, p, made);
	} else {
		make_image<1>(it.job, p, made);
	}
}

/* ---- what takes more registers ---- */

template <int C> static __device__ __forceinline__ void mix_image(const stk_array_job &job, const part &p, uint8_t *made)
{
	if (job.kind == STK_ARRAY_TRANSFORM) {
		const stk_transform t = job.transform; /* a copy, which bytes that are written cannot change */
		make_pixels<C, 1>(p, t.width, made, [&](int32_t x, int32_t y, uint8_t *to) { stk__transform_pixel(&t, p.src, to, x, y); });
		return;
	}
	const stk_enhance e = job.enhance;
	int32_t mean = stk__enhance_measures(&e) < e.n ? ((const int32_t *)job.work)[p.frame] : 0;
	make_pixels<C, 1>(p, e.width, made, [&](int32_t x, int32_t y, uint8_t *to) {
		int32_t pixel[3];
		stk__enhance_load(&e, p.src + ((int64_t)y * e.width + x) * C, e.n, mean, pixel);
#pragma unroll
		for (int c = 0; c < C; c++)
			to[c] = (uint8_t)pixel[c];
	});
}

extern "C" __global__ void __launch_bounds__(THREADS) array_image_mix(const __grid_constant__ stk_array_gpu_view v)
{
	__shared__ __align__(16) uint8_t made[VALUES];
	const stk_array_gpu_item &it = v.items[find_item(v)];
	stk_array_image im = stk__array_image(&it.job);
	part p = find_part(v, it, im);
	if (im.channels == 3)
		mix_image<3>(it.job, p, made);
	else
		mix_image<1>(it.job, p, made);
}
