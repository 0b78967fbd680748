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

/* Returns the sum of one band. x: the column's first bin in the tile; columns: distance between its bins. */
static __device__ __forceinline__ float sum_band(const stk_band &band, const float *weights, const float *x, uint32_t columns)
{
	float sum = 0;
	const float *from = x + (uint32_t)band.first * columns;
	weights += band.at;
#pragma unroll 4
	for (int32_t k = 0; k < band.count; k++, from += columns)
		sum += *from * weights[k];
	return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) job_bands_tile(const __grid_constant__ stk_job_gpu_view v)
{
	STK_SHARED_ARRAY(float, tile);
	const stk_job_gpu_item &it = share_item(v);
	const stk_bands &p = STK_PARAMS(stk_bands, &it.job);
	const stk_band *bands = stk__global((const stk_band *)it.job.constants);
	const float *weights = stk__global(stk__bands_weights(&it.job));
	const uint32_t columns = stk__bands_columns(&p), tiles = ((uint32_t)p.inner + columns - 1) / columns;
	const uint32_t block = blockIdx.x - it.block0[v.launch], outer = block / tiles;
	const uint32_t mine = threadIdx.x % columns, first = threadIdx.x / columns, step = THREADS / columns;
	const uint32_t column = (block - outer * tiles) * columns + mine;
	if (column < (uint32_t)p.inner) {
		const float *from = stk__global((const float *)it.job.src[0]) + outer * p.bins * p.inner + column;
#pragma unroll 4
		for (uint32_t k = first; k < (uint32_t)p.bins; k += step)
			stk__copy_ahead4(&tile[k * columns + mine], from + k * p.inner);
	}
	stk__copy_commit();
	stk__copy_wait(0);
	__syncthreads();
	if (column >= (uint32_t)p.inner)
		return;
	float *to = stk__global((float *)it.job.dst) + outer * p.rows * p.inner + column;
	for (uint32_t row = first; row < (uint32_t)p.rows; row += step)
		to[row * p.inner] = sum_band(bands[row], weights, tile + mine, columns);
}
