/* SPDX-License-Identifier: Apache-2.0
 * Jobs over images of bytes on the GPU (kernel/image/image.h): kernels that measure an image, and kernels that make an image's pixels and store them. Most read
 * and write 16 bytes at a time if frames are aligned. */
#include "kernel/image/image_gpu.cuh"
#include "kernel/job/job_find.cuh"

#define THREADS STK_JOB_THREADS
#define CHUNK 16 /* pixels that a thread holds at a time; they take one vector of 16 bytes for each channel */
#define COPIES 8 /* copies of each count, so that adjacent threads that count equal values seldom wait for each other */

/* ---- measurements ---- */

/* Adds the values of a part's pixels to counts[(BINS * channel + value) * COPIES + copy]. */
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

/* Returns the sum of the luma of those pixels of a part that belong to this thread, after the steps that precede contrast. */
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

/* Returns the sum of x over all threads of the block, in all threads. Sums of bytes cannot overflow, since a part has at most 12 288 bytes. */
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

/* Returns the sum of `count` over all threads before this one. All threads of the block must call this. */
static __device__ __forceinline__ int32_t counts_below(int32_t count)
{
	__shared__ int32_t sums[BINS / 32];
	int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, upto = count, below = 0;
#pragma unroll
	for (int by = 1; by < 32; by *= 2) {
		int32_t other = __shfl_up_sync(~0u, upto, by);
		upto += lane >= by ? other : 0;
	}
	__syncthreads(); /* other threads may still read the sums of the previous channel */
	if (lane == 31)
		sums[warp] = upto;
	__syncthreads();
	for (int i = 0; i < warp; i++)
		below += sums[i];
	return below + upto - count;
}

/* Makes the table of one channel. Each thread passes the count of one value, and makes the entry for this value. n: number of pixels. */
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

static __device__ __forceinline__ uint32_t add_blocks(const volatile uint32_t *measured, uint32_t step, uint32_t blocks)
{
	uint32_t sum = 0;
#pragma unroll 8
	for (uint32_t b = 0; b < blocks; b++)
		sum += measured[b * step];
	return sum;
}

static __device__ void measure_counts(const stk_job &job, const part &p, const stk_job_image &im, uint32_t *measured)
{
	__shared__ __align__(16) uint32_t counts[STK_JOB_IMAGE_CHANNELS * BINS * COPIES];
	const stk_equalize e = STK_PARAMS(stk_equalize, &job);
	for (int i = threadIdx.x; i < im.channels * BINS * COPIES / 4; i += THREADS)
		((uint4 *)counts)[i] = make_uint4(0, 0, 0, 0);
	__syncthreads();
	if (im.channels == 3)
		count<3>(p, counts);
	else
		count<1>(p, counts);
	__syncthreads();
	for (int32_t i = threadIdx.x; i < im.channels * BINS; i += THREADS) {
		const uint4 *copies = (const uint4 *)(const void *)(counts + COPIES * i);
		uint4 a = copies[0], b = copies[1];
		measured[p.block * im.measured + i] = a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
	}
	if (!stk__comes_last((uint32_t *)job.constants + p.frame, im.blocks))
		return;
	uint8_t *tables = (uint8_t *)job.work + (int64_t)p.frame * im.channels * BINS;
	for (int32_t c = 0; c < im.channels; c++)
		make_table(e, (int32_t)add_blocks(measured + c * BINS + threadIdx.x, im.measured, im.blocks), im.pixels, tables + c * BINS);
}

/* Raises most[2 * c] to the largest value that channel c has in this thread's pixels, and most[2 * c + 1] to 255 minus the smallest value. */
template <int C> static __device__ void find_extremes(const part &p, int32_t (&most)[2 * C])
{
	const uint8_t *from = p.src + (int64_t)p.first * C;
	int32_t done = p.vectors ? p.n / CHUNK * CHUNK : 0;
	for (int32_t i = CHUNK * threadIdx.x; i < done; i += CHUNK * THREADS) {
		chunk<C> values = load<C>(from + C * i);
#pragma unroll
		for (int k = 0; k < CHUNK * C; k++) {
			most[2 * (k % C)] = max(most[2 * (k % C)], values.get(k));
			most[2 * (k % C) + 1] = max(most[2 * (k % C) + 1], 255 - values.get(k));
		}
	}
	for (int32_t i = done + threadIdx.x; i < p.n; i += THREADS)
#pragma unroll
		for (int c = 0; c < C; c++) {
			int32_t value = __ldg(from + C * i + c);
			most[2 * c] = max(most[2 * c], value);
			most[2 * c + 1] = max(most[2 * c + 1], 255 - value);
		}
}

/* Measures each channel's minimum and maximum, and makes the tables that stretch between these (STK_EQUALIZE_STRETCH). */
template <int C> static __device__ void measure_extremes(const stk_job &job, const part &p, const stk_job_image &im, uint32_t *measured)
{
	__shared__ int32_t extremes[2 * C];
	int32_t most[2 * C] = {};
	if (threadIdx.x < 2 * C)
		extremes[threadIdx.x] = 0;
	find_extremes<C>(p, most);
	__syncthreads();
#pragma unroll
	for (int k = 0; k < 2 * C; k++) {
#pragma unroll
		for (int by = 16; by > 0; by /= 2)
			most[k] = max(most[k], __shfl_xor_sync(~0u, most[k], by));
		if (threadIdx.x % 32 == 0)
			atomicMax(&extremes[k], most[k]);
	}
	__syncthreads();
	if (threadIdx.x < 2 * C)
		measured[p.block * (2 * C) + threadIdx.x] = (uint32_t)extremes[threadIdx.x];
	if (!stk__comes_last((uint32_t *)job.constants + p.frame, im.blocks))
		return;
	if (threadIdx.x < 2 * C)
		for (uint32_t b = 0; b < im.blocks; b++)
			extremes[threadIdx.x] =
				max(extremes[threadIdx.x], *(const volatile int32_t *)(measured + b * (2 * C) + threadIdx.x));
	__syncthreads();
	uint8_t *tables = (uint8_t *)job.work + (int64_t)p.frame * C * BINS;
#pragma unroll
	for (int c = 0; c < C; c++) {
		stk_equalize_range r = {im.pixels, 255 - extremes[2 * c + 1], extremes[2 * c], 0, 0};
		tables[c * BINS + threadIdx.x] = stk__equalize_stretch(&r, threadIdx.x);
	}
}

static __device__ void measure_luma(const stk_job &job, const part &p, const stk_job_image &im, uint32_t *measured)
{
	const stk_enhance e = STK_PARAMS(stk_enhance, &job);
	uint32_t sum = add_threads(im.channels == 3 ? add_luma<3>(p, e) : add_luma<1>(p, e));
	if (threadIdx.x == 0)
		measured[p.block] = sum;
	if (!stk__comes_last((uint32_t *)job.constants + p.frame, im.blocks) || threadIdx.x > 0)
		return;
	uint64_t all = 0;
	for (uint32_t b = 0; b < im.blocks; b++)
		all += *(const volatile uint32_t *)(measured + b);
	((int32_t *)job.work)[p.frame] = stk__enhance_mean(all, (uint64_t)im.pixels);
}

extern "C" __global__ void __launch_bounds__(THREADS) job_image_measure(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	stk_job_image im = stk__job_image(&it.job);
	part p = find_part(it.job, im, blockIdx.x - it.block0[v.launch]);
	uint32_t *measured =
		(uint32_t *)((uint8_t *)it.job.work + stk__job_image_results(&it.job, &im)) + (int64_t)p.frame * im.blocks * im.measured;
	if (it.job.kind != STK_JOB_equalize)
		measure_luma(it.job, p, im, measured);
	else if (STK_PARAMS(stk_equalize, &it.job).table != STK_EQUALIZE_STRETCH)
		measure_counts(it.job, p, im, measured);
	else if (im.channels == 3)
		measure_extremes<3>(it.job, p, im, measured);
	else
		measure_extremes<1>(it.job, p, im, measured);
}

/* ---- pixels ---- */

/* Stores the pixels that the thread block has made. All threads must call this; it first waits until all pixels are made. */
static __device__ __forceinline__ void store_part(const stk_job &job, const part &p, int32_t channels, const uint8_t *made)
{
	uint8_t *to = job.dst + p.at;
	__syncthreads();
	int32_t n = p.n * channels, done = ((uint64_t)to & 15) == 0 ? n / 16 * 16 : 0;
	for (int32_t i = 16 * threadIdx.x; i < done; i += 16 * THREADS)
		*(uint4 *)(to + i) = *(const uint4 *)(made + i);
	for (int32_t i = done + threadIdx.x; i < n; i += THREADS)
		to[i] = made[i];
}

extern "C" __global__ void __launch_bounds__(THREADS, 5) job_image(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ __align__(16) uint8_t made[VALUES];
	const stk_job_gpu_item &it = v.items[find_item(v)];
	stk_job_image im = stk__job_image(&it.job);
	part p = find_part(it.job, im, blockIdx.x - it.block0[v.launch]);
	make_part(it.job, p, im, made);
	store_part(it.job, p, im.channels, made);
}

/* ---- jobs that need more registers ---- */

template <int C> static __device__ __forceinline__ void mix_image(const stk_job &job, const part &p, uint8_t *made)
{
	if (job.kind == STK_JOB_transform) {
		const stk_transform t = STK_PARAMS(stk_transform, &job); /* a copy, since byte stores may alias the original */
		make_pixels<C, 1>(p, t.width, made, [&](int32_t x, int32_t y, uint8_t *to) { stk__transform_pixel(&t, p.src, to, x, y); });
		return;
	}
	const stk_enhance e = STK_PARAMS(stk_enhance, &job);
	int32_t mean = stk__enhance_measures(&e) < e.n ? ((const int32_t *)job.work)[p.frame] : 0;
	make_pixels<C, 1>(p, e.width, made, [&](int32_t x, int32_t y, uint8_t *to) {
		int32_t pixel[3];
		stk__enhance_load(&e, p.src + ((int64_t)y * e.width + x) * C, e.n, mean, pixel);
#pragma unroll
		for (int c = 0; c < C; c++)
			to[c] = (uint8_t)pixel[c];
	});
}

extern "C" __global__ void __launch_bounds__(THREADS) job_image_mix(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ __align__(16) uint8_t made[VALUES];
	const stk_job_gpu_item &it = v.items[find_item(v)];
	stk_job_image im = stk__job_image(&it.job);
	part p = find_part(it.job, im, blockIdx.x - it.block0[v.launch]);
	if (im.channels == 3)
		mix_image<3>(it.job, p, made);
	else
		mix_image<1>(it.job, p, made);
	store_part(it.job, p, im.channels, made);
}
