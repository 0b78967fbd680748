/* SPDX-License-Identifier: Apache-2.0
 * Noise on the GPU, by the functions of pointwise_element.h, with several outputs per thread: one block of draws is enough for four normally distributed
 * numbers, or for two pixels of salt and pepper. For bytes, parameters of the Poisson distributions are computed once for each of the
 * 256 values. */
#include "kernel/common/pixels.cuh"
#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"
#include "kernel/pointwise/pointwise_element.h"

#define THREADS STK_JOB_THREADS
#define SPAN STK_JOB_OUTPUTS /* number of values, or for salt and pepper of pixels, that a thread block makes */

/* Returns x rounded to a byte like stk__store_double: limited to 0 .. 255, halves up. */
static __device__ __forceinline__ uint32_t nearest_byte(double x)
{
	x = x > 0 ? x : 0; /* NaN becomes 0 */
	x = x < 255 ? x : 255;
	int32_t whole = (int32_t)x;
	return (uint32_t)(whole + (x - (double)whole >= 0.5));
}

static __device__ __forceinline__ bool is_bytes(const stk_pointwise_data &d)
{
	return d.src_dtype == STK_UINT8 && d.dst_dtype == STK_UINT8;
}

/* ---- normal ---- */

static __device__ __forceinline__ void add_normals(const stk_pointwise_noise &n, const stk_pointwise_data &d, uint32_t first, uint32_t end)
{
	bool bytes = is_bytes(d), words = bytes && (((uintptr_t)d.src | (uintptr_t)d.dst) & 3) == 0;
	double mean = (double)n.mean, stddev = (double)n.stddev;
#pragma unroll 1
	for (uint32_t i = first + 4 * threadIdx.x; i < end; i += 4 * THREADS) {
		stk_philox_block draws = stk__pointwise_draws(&n.random, i / 4, 0);
		float normal[4];
		stk__pointwise_normals(draws.v[0], draws.v[1], normal);
		stk__pointwise_normals(draws.v[2], draws.v[3], normal + 2);
		if (words && i + 4 <= end) {
			uint32_t from = *(const uint32_t *)(const void *)(d.src + i), to = 0;
#pragma unroll
			for (int k = 0; k < 4; k++)
				to |= nearest_byte((double)(from >> 8 * k & 255) + (mean + stddev * (double)normal[k])) << 8 * k;
			*(uint32_t *)(void *)(d.dst + i) = to;
			continue;
		}
		for (uint32_t k = 0; k < min(4u, end - i); k++) {
			int64_t at = (int64_t)i + k;
			float drawn = k == 0 ? normal[0] : k == 1 ? normal[1] : k == 2 ? normal[2] : normal[3];
			stk__pointwise_add(&n, &d, d.dst + at * d.dst_size, d.src + at * d.src_size, drawn);
		}
	}
}

/* ---- salt and pepper ---- */

/* Returns the address of the value that replaces a pixel, or NULL if the pixel stays unchanged. whether: the draw that decides if the pixel is replaced; which:
 * the draw that selects salt or pepper. */
static __device__ __forceinline__ const uint8_t *replacement(const stk_pointwise_noise &n, uint32_t whether, uint32_t which)
{
	if (!(stk__unit_hd(whether) < n.prob))
		return 0;
	return stk__unit_hd(which) < n.salt_share ? n.salt : n.pepper;
}

/* Replaces pixel `at`, counted over all frames, by the value `by`, or copies it if `by` is NULL. */
static __device__ __forceinline__ void replace_pixel(
	const stk_pointwise_noise &n, const stk_pointwise_data &d, uint32_t at, const uint8_t *by)
{
	uint32_t inner = (uint32_t)n.inner, channels = (uint32_t)n.channels, outer = inner > 1 ? at / inner : at;
	int64_t i = (int64_t)outer * channels * inner + (at - outer * inner);
#pragma unroll 1
	for (uint32_t c = 0; c < channels; c++, i += inner)
		stk__job_move(d.dst + i * d.dst_size, by ? by : d.src + i * d.src_size, d.dst_size);
}

static __device__ __forceinline__ void replace_pixels(
	const stk_pointwise_noise &n, const stk_pointwise_data &d, uint32_t first, uint32_t end)
{
	bool rgb = d.dst_size == 1 && n.inner == 1 && n.channels == 3 && (((uintptr_t)d.src | (uintptr_t)d.dst) & 1) == 0;
	uint32_t salt = n.salt[0] * 0x010101u, pepper = n.pepper[0] * 0x010101u;
#pragma unroll 1
	for (uint32_t at = first + 2 * threadIdx.x; at < end; at += 2 * THREADS) {
		stk_philox_block draws = stk__pointwise_draws(&n.random, at / 2, 0);
		const uint8_t *left = replacement(n, draws.v[0], draws.v[1]), *right = replacement(n, draws.v[2], draws.v[3]);
		if (rgb && at + 2 <= end) { /* two pixels at once */
			const uint16_t *from = (const uint16_t *)(const void *)(d.src + 3 * (int64_t)at);
			uint16_t *to = (uint16_t *)(void *)(d.dst + 3 * (int64_t)at);
			uint32_t a = from[0], b = from[1], c = from[2], x = a | (b & 255) << 16, y = b >> 8 | c << 8;
			x = !left ? x : left == n.salt ? salt : pepper;
			y = !right ? y : right == n.salt ? salt : pepper;
			to[0] = (uint16_t)x;
			to[1] = (uint16_t)(x >> 16 | (y & 255) << 8);
			to[2] = (uint16_t)(y >> 8);
			continue;
		}
		replace_pixel(n, d, at, left);
		if (at + 1 < end)
			replace_pixel(n, d, at + 1, right);
	}
}

/* ---- Poisson ---- */

/* For each value of a byte, the parameters that depend on the mean. reciprocal: 1 / k for k from 1 to 100. number: the outputs that need the slower algorithm,
 * counted from the thread block's first output; there are `left` of them. */
struct poisson_tables {
	double mean[256], rare[256], a[256], b[256], limit[256], reciprocal[101];
	uint32_t left;
	uint16_t number[SPAN];
};

static __device__ __forceinline__ void make_tables(const stk_pointwise_noise &n, poisson_tables &t)
{
	uint32_t x = threadIdx.x;
	double mean = stk__pointwise_mean(&n, (double)x);
	t.mean[x] = mean;
	t.rare[x] = mean < STK_POINTWISE_POISSON_SMALL ? stk__math_exp(-mean) : 0;
	t.b[x] = 0.931 + 2.53 * sqrt(mean);
	t.a[x] = -0.059 + 0.02483 * t.b[x];
	t.limit[x] = 0.9277 - 3.6224 / (t.b[x] - 2);
	if (x <= 100)
		t.reciprocal[x] = 1 / (double)max(x, 1u);
	t.left = 0;
	__syncthreads();
}

/* Returns mean / k, correctly rounded. k: 1 to 100; reciprocal: 1 / k. Two steps correct the quotient by its remainder, which fused multiply-add computes
 * exactly (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). */
static __device__ __forceinline__ double divide(double mean, int32_t k, double reciprocal)
{
	double divisor = (double)k, q = mean * reciprocal;
	q = __fma_rn(__fma_rn(-q, divisor, mean), reciprocal, q);
	return __fma_rn(__fma_rn(-q, divisor, mean), reciprocal, q);
}

/* Returns the draw that stk__pointwise_poisson returns for byte x, whose mean must be below STK_POINTWISE_POISSON_SMALL. u: a random number, uniform in [0,
 * 1). */
static __device__ __forceinline__ double draw_small(const poisson_tables &t, double u, uint32_t x)
{
	int32_t k = 0;
	double mean = t.mean[x], p = t.rare[x];
	for (double sum = p; u >= sum && k < 100; sum += p) {
		k++;
		p *= divide(mean, k, t.reciprocal[k]);
	}
	return (double)k;
}

/* Returns true if the first iteration of stk__pointwise_poisson_large accepts its result, for byte x, without a logarithm. Sets *k to this result. */
static __device__ __forceinline__ bool draw_soon(const poisson_tables &t, const stk_philox_block &draws, uint32_t x, double *k)
{
	double u = stk__pointwise_double(draws.v[0], draws.v[1]) - 0.5, v = 1 - stk__pointwise_double(draws.v[2], draws.v[3]),
	       us = 0.5 - fabs(u);
	*k = floor((2 * t.a[x] / us + t.b[x]) * u + t.mean[x] + 0.43);
	return us >= 0.07 && v <= t.limit[x];
}

/* Replaces each byte by the factor times a draw from the Poisson distribution with mean byte / factor. Outputs that need the slower algorithm are first put on
 * a list, so that a whole warp does not wait for one lane. */
static __device__ __forceinline__ void shoot_bytes(
	const stk_pointwise_noise &n, const stk_pointwise_data &d, uint32_t first, uint32_t end, poisson_tables &t)
{
	double factor = (double)n.mean;
	make_tables(n, t);
#pragma unroll 1
	for (uint32_t i = first + threadIdx.x; i < end; i += THREADS) {
		uint32_t x = d.src[i];
		stk_philox_block draws = stk__pointwise_draws(&n.random, i, 0);
		double k;
		if (t.mean[x] < STK_POINTWISE_POISSON_SMALL)
			k = draw_small(t, stk__pointwise_double(draws.v[0], draws.v[1]), x);
		else if (!(t.mean[x] < INFINITY) || !draw_soon(t, draws, x, &k)) {
			t.number[atomicAdd(&t.left, 1u)] = (uint16_t)(i - first);
			continue;
		}
		d.dst[i] = (uint8_t)nearest_byte(k * factor);
	}
	__syncthreads();
#pragma unroll 1
	for (uint32_t k = threadIdx.x; k < t.left; k += THREADS)
		stk__pointwise_shoot(&n, &d, first + t.number[k]);
}

extern "C" __global__ void __launch_bounds__(THREADS) job_noise(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	const stk_job &job = it.job;
	const stk_pointwise_noise n = STK_PARAMS(stk_pointwise, &job).noise;
	stk_pointwise_data d = stk__job_pointwise_data(&job);
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * SPAN, end = min(first + SPAN, (uint32_t)job.n);
	if (STK_PARAMS(stk_pointwise, &job).op == STK_POINTWISE_NORMAL)
		add_normals(n, d, first, end);
	else
		replace_pixels(n, d, first, min(first + SPAN, (uint32_t)(job.n / n.channels)));
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) job_noise_poisson(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ poisson_tables tables;
	const stk_job_gpu_item &it = share_item(v);
	const stk_job &job = it.job;
	const stk_pointwise_noise n = STK_PARAMS(stk_pointwise, &job).noise;
	stk_pointwise_data d = stk__job_pointwise_data(&job);
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * SPAN, end = min(first + SPAN, (uint32_t)job.n);
	if (is_bytes(d) && n.mean != 0) {
		shoot_bytes(n, d, first, end, tables);
		return;
	}
	for (uint32_t i = first + threadIdx.x; i < end; i += THREADS)
		stk__pointwise_shoot(&n, &d, i);
}
