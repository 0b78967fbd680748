/* SPDX-License-Identifier: Apache-2.0
 * Normalisation on the GPU: measures the mean and the factor of each group, then makes one output per thread at a time. */
#include "kernel/job/job_find.cuh"
#include "kernel/reduce/normalize_one.h"
#include "kernel/reduce/reduce_blocks.h"

#define THREADS STK_JOB_THREADS

/* What is added up for each element: its value minus `mean`, squared if `squares` is set. */
struct term {
	double mean;
	bool squares;
};

/* Returns the sum of the terms of elements first, first + step, ... of the group at `base`. */
static __device__ __forceinline__ double sum_elements(const stk_job &job, const uint8_t *base, uint32_t first, uint32_t step, term t)
{
	const stk_job_groups &g = STK_PARAMS(stk_job_normalize, &job).groups;
	int32_t size = stk__job_size(job.src_dtype[0]);
	double sum = 0;
	for (uint32_t k = first; k < g.count; k += step) {
		double x = (double)stk__job_float(base + stk__job_offset(g.reduced, g.n_reduced, k) * size, job.src_dtype[0]) - t.mean;
		sum += t.squares ? x * x : x;
	}
	return sum;
}

/* Returns the sum of all threads' sums to every thread. Adds them pairwise in the order that reduce.h fixes. */
static __device__ __forceinline__ double sum_lanes(double sum)
{
	__shared__ double sums[STK_JOB_PARTIAL_SUMS];
	sums[threadIdx.x] = sum;
	__syncthreads();
	for (uint32_t stride = STK_JOB_PARTIAL_SUMS / 2; stride > 0; stride /= 2) {
		if (threadIdx.x < stride)
			sums[threadIdx.x] += sums[threadIdx.x + stride];
		__syncthreads();
	}
	double total = sums[0];
	__syncthreads();
	return total;
}

/* Computes a group's mean and factor and stores them in job.work. Either all threads of a thread block share a group (`together`), or the calling thread works
 * for itself. */
static __device__ __forceinline__ void measure_group(const stk_job &job, uint32_t group, bool together)
{
	const stk_job_normalize &n = STK_PARAMS(stk_job_normalize, &job);
	const stk_job_groups &g = n.groups;
	uint32_t first = together ? threadIdx.x : 0, step = together ? STK_JOB_PARTIAL_SUMS : 1;
	const uint8_t *base = job.src[0] + stk__job_offset(g.kept, g.n_kept, group) * stk__job_size(job.src_dtype[0]);
	bool exact = stk__job_measures_exactly(&job);
	double sum = 0, squares = 0;
	if (!n.n_mean) {
		term values = {0, false};
		sum = sum_elements(job, base, first, step, values);
		sum = together ? sum_lanes(sum) : sum;
	}
	double mean = stk__job_mean(&job, group, sum);
	if (!n.n_factor) {
		term distances = {exact ? 0 : mean, true};
		squares = sum_elements(job, base, first, step, distances);
		squares = together ? sum_lanes(squares) : squares;
		squares = exact ? stk__job_spread(g.count, sum, squares) : squares;
	}
	if (together && threadIdx.x > 0)
		return;
	double *stats = (double *)job.work + 2 * group;
	stats[0] = mean;
	stats[1] = stk__job_factor(&job, group, squares);
}

/* Measures groups of fewer than STK_JOB_SERIAL elements with one thread each, and longer ones with a thread block each. */
extern "C" __global__ void __launch_bounds__(THREADS) job_measure(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	const stk_job_groups &g = STK_PARAMS(stk_job_normalize, &it.job).groups;
	uint32_t block = blockIdx.x - it.block0[v.launch];
	if (g.count >= STK_JOB_SERIAL) {
		measure_group(it.job, block, true);
		return;
	}
	uint32_t first = block * STK_REDUCE_GROUPS, end = min(first + STK_REDUCE_GROUPS, g.groups);
	for (uint32_t group = first + threadIdx.x; group < end; group += THREADS)
		measure_group(it.job, group, false);
}

extern "C" __global__ void __launch_bounds__(THREADS) job_normalize(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS) {
		stk_job_place p = stk__job_place(&it.job, i);
		stk__job_normalize_one(&it.job, &p);
	}
}
