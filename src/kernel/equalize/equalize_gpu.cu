/* SPDX-License-Identifier: Apache-2.0
 * Equalisation on the GPU: first a thread block makes each table, then a thread makes one output or pixel at a time. These kernels run adaptive equalisation,
 * and images with a number of channels that the shared launches for images do not support (kernel/image/image.h). */
#include "kernel/equalize/equalize_element.h"
#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"

#define THREADS STK_JOB_THREADS
/* number of pixels that a thread loads before it counts them, since a load does not start before an earlier atomic operation has ended */
#define AT_ONCE 8

extern "C" __global__ void __launch_bounds__(THREADS) job_equalize_tables(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ int32_t counts[STK_EQUALIZE_BINS];
	const stk_job_gpu_item &it = v.items[find_item(v)];
	const stk_equalize &e = STK_PARAMS(stk_equalize, &it.job);
	stk_equalize_data data = stk__job_equalize_data(&it.job);
	int32_t table = (int32_t)(blockIdx.x - it.block0[v.launch]), tiles = e.tiles_x ? e.tiles_x * e.tiles_y : 1;
	int32_t plane = table / tiles, tile = table % tiles, n = e.tiles_x ? e.tile_w * e.tile_h : e.width * e.height;
	for (int i = threadIdx.x; i < STK_EQUALIZE_BINS; i += THREADS)
		counts[i] = 0;
	__syncthreads();
	for (int32_t first = threadIdx.x; first < n; first += AT_ONCE * THREADS) {
		uint8_t values[AT_ONCE];
		for (int j = 0; j < AT_ONCE; j++) {
			int32_t k = min(first + j * THREADS, n - 1);
			values[j] = e.tiles_x ? stk__equalize_tile_value(&e, &data, plane, tile, k)
					      : stk__equalize_value(&e, &data, plane, k % e.width, k / e.width);
		}
		for (int j = 0; j < AT_ONCE && first + j * THREADS < n; j++)
			atomicAdd(&counts[values[j]], 1);
	}
	__syncthreads();
	if (threadIdx.x == 0)
		stk__equalize_table(&e, counts, n, data.tables + (int64_t)table * STK_EQUALIZE_BINS);
}

extern "C" __global__ void __launch_bounds__(THREADS) job_equalize(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	const stk_equalize e = STK_PARAMS(stk_equalize, &it.job); /* a copy, since byte stores may alias the original */
	stk_equalize_data data = stk__job_equalize_data(&it.job);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__equalize_one(&e, &data, i);
}
