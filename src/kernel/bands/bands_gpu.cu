/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums along a dimension on the GPU. Where columns are adjacent in memory, as in spectrograms with time as the last dimension, a thread block loads
 * all bins of some columns into shared memory and makes all of their sums. Otherwise, each thread makes at most STK_BANDS_EACH outputs. */
#include "kernel/bands/bands.h"
#include "kernel/job/job_find.cuh"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_bands(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * (THREADS * STK_BANDS_EACH) + threadIdx.x;
	for (uint32_t k = 0; k < STK_BANDS_EACH; k++)
		if (first + k * THREADS < it.job.n)
			stk__bands_one(&it.job, first + k * THREADS);
}

/* Number of columns of a tile in which a thread sums a band, so that it loads a weight once for all of them. */
#define COLUMNS_EACH 2

/* Sums the bands of a tile of COLUMNS columns from number `column` on, at one outer index. */
template <uint32_t COLUMNS>
static __device__ __forceinline__ void sum_tile(const stk_job &job, uint32_t outer, uint32_t column, float *tile)
{
	const stk_bands &p = STK_PARAMS(stk_bands, &job);
	const stk_band *bands = stk__global((const stk_band *)job.constants);
	const float *weights = stk__global(stk__bands_weights(&job)), *src = stk__global((const float *)job.src[0]);
	const uint32_t inner = (uint32_t)p.inner, count = min(COLUMNS, inner - column), mine = threadIdx.x % COLUMNS;
	src += outer * p.bins * p.inner + column + mine;
	if (mine < count) {
#pragma unroll 4
		for (uint32_t k = threadIdx.x / COLUMNS; k < (uint32_t)p.bins; k += THREADS / COLUMNS)
			stk__copy_ahead4(&tile[k * COLUMNS + mine], src + k * p.inner);
	}
	stk__copy_commit();
	stk__copy_wait(0);
	__syncthreads();
	/* A thread's columns are far apart, so that adjacent threads store adjacent outputs. */
	const uint32_t lanes = COLUMNS / COLUMNS_EACH, lane = threadIdx.x % lanes;
	float *dst = stk__global((float *)job.dst) + outer * p.rows * p.inner + column + lane;
	for (uint32_t row = threadIdx.x / lanes; row < (uint32_t)p.rows; row += THREADS / lanes) {
		const stk_band band = bands[row];
		const float *x = tile + (uint32_t)band.first * COLUMNS + lane, *w = weights + band.at;
		float sum[COLUMNS_EACH] = {};
#pragma unroll 4
		for (int32_t k = 0; k < band.count; k++, x += COLUMNS)
#pragma unroll
			for (uint32_t e = 0; e < COLUMNS_EACH; e++)
				sum[e] += x[e * lanes] * w[k];
#pragma unroll
		for (uint32_t e = 0; e < COLUMNS_EACH; e++)
			if (lane + e * lanes < count)
				dst[row * p.inner + e * lanes] = sum[e];
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) job_bands_tile(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(float, tile);
	const stk_job_gpu_item &it = share_item(v);
	const stk_bands &p = STK_PARAMS(stk_bands, &it.job);
	const uint32_t columns = stk__bands_columns(&p), tiles = ((uint32_t)p.inner + columns - 1) / columns;
	const uint32_t block = blockIdx.x - it.block0[v.launch], outer = block / tiles, column = (block - outer * tiles) * columns;
	if (columns == 32)
		sum_tile<32>(it.job, outer, column, tile);
	else if (columns == 16)
		sum_tile<16>(it.job, outer, column, tile);
	else
		sum_tile<8>(it.job, outer, column, tile);
}
