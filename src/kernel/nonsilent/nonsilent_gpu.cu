/* SPDX-License-Identifier: Apache-2.0
 * Finds the part of a signal that is not silent: first with a thread for each chunk of windows, then with a thread block for the signal. */
#include "kernel/job/job_find.cuh"
#include "kernel/nonsilent/nonsilent.h"

#define THREADS STK_JOB_THREADS

extern "C" __global__ void __launch_bounds__(THREADS) job_nonsilent_chunks(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	uint32_t chunk = (blockIdx.x - it.block0[v.launch]) * THREADS + threadIdx.x;
	if (chunk < stk__nonsilent_chunks(&it.job))
		((double *)it.job.work)[chunk] = stk__nonsilent_search(&it.job, it.job.src_dtype[0], chunk, 0).largest;
}

extern "C" __global__ void __launch_bounds__(THREADS) job_nonsilent(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ double largest[THREADS];
	__shared__ int first, last;
	__shared__ int64_t found[2];
	const stk_job &job = v.items[find_item(v)].job;
	const double *chunks = (const double *)job.work;
	int n = (int)stk__nonsilent_chunks(&job), me = (int)threadIdx.x;
	double mine = 0;
	for (int c = me; c < n; c += THREADS)
		mine = chunks[c] > mine ? chunks[c] : mine;
	largest[me] = mine;
	if (me == 0) {
		first = n;
		last = -1;
	}
	__syncthreads();
	for (int stride = THREADS / 2; stride > 0; stride /= 2) {
		if (me < stride)
			largest[me] = largest[me + stride] > largest[me] ? largest[me + stride] : largest[me];
		__syncthreads();
	}
	double limit = stk__nonsilent_limit(&job, largest[0]);
	for (int c = me; c < n; c += THREADS)
		if (chunks[c] >= limit) {
			atomicMin(&first, c);
			atomicMax(&last, c);
		}
	__syncthreads();
	if (me < 2 && last >= 0) {
		stk_nonsilent_chunk at = stk__nonsilent_search(&job, job.src_dtype[0], me ? last : first, limit);
		found[me] = me ? at.last : at.first;
	}
	__syncthreads();
	if (me == 0)
		stk__nonsilent_store(&job, last < 0 ? -1 : found[0], last < 0 ? -1 : found[1]);
}
