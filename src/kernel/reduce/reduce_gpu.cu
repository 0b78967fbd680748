/* SPDX-License-Identifier: Apache-2.0
 * Reductions of elements of any type on the GPU. The jobs over bytes that reduce_bytes.h describes have kernels of their own. */
#include "kernel/job/job_find.cuh"
#include "kernel/reduce/reduce_blocks.h"

#define THREADS STK_JOB_THREADS

/* Returns the results of all threads, combined in the order that reduce.h fixes. */
static __device__ __forceinline__ stk_job_value join_lanes(const stk_job &job, stk_job_value part)
{
	__shared__ stk_job_value parts[STK_JOB_PARTIAL_SUMS];
	parts[threadIdx.x] = part;
	__syncthreads();
	for (uint32_t stride = STK_JOB_PARTIAL_SUMS / 2; stride > 0; stride /= 2) {
		if (threadIdx.x < stride)
			parts[threadIdx.x] = stk__job_reduce_join(&job, parts[threadIdx.x], parts[threadIdx.x + stride]);
		__syncthreads();
	}
	return parts[0];
}

/* The elements of a group that a thread processes: first, first + step, and so on. mean: a number that is subtracted from each element before it is added. */
struct share {
	const uint8_t *base;
	uint32_t first, step;
	double mean;
};

/* Returns the sum of the share's elements of type T, or with `squares` of their squares, in the job's domain. In double, the share's mean is first subtracted
 * from each element. If at most one dimension is reduced, elements are a fixed stride apart, and no indices are computed. */
template <typename T> static __device__ __forceinline__ stk_job_value sum_share(const stk_job &job, const share &s, bool squares)
{
	const stk_job_groups &g = STK_PARAMS(stk_job_reduce, &job).groups;
	const T *x = (const T *)s.base;
	stk_job_value sum = stk__job_reduce_identity(&job);
	int64_t stride = g.n_reduced ? g.reduced[0].stride : 0;
	bool line = g.n_reduced < 2;
	for (uint32_t k = s.first; k < g.count; k += s.step) {
		T v = x[line ? (int64_t)k * stride : stk__job_offset(g.reduced, g.n_reduced, k)];
		if (STK_PARAMS(stk_job_reduce, &job).domain == STK_ARITH_DOUBLE) {
			double d = (double)v - s.mean;
			sum.f += squares ? d * d : d;
		} else {
			uint64_t whole = (uint64_t)v;
			sum.u += squares ? whole * whole : whole;
		}
	}
	return sum;
}

template <typename T> static __device__ __forceinline__ stk_job_value extreme_share(const stk_job &job, const share &s)
{
	const stk_job_groups &g = STK_PARAMS(stk_job_reduce, &job).groups;
	const T *x = (const T *)s.base;
	stk_job_value best = stk__job_reduce_identity(&job);
	bool min = STK_PARAMS(stk_job_reduce, &job).op == STK_REDUCE_MIN, line = g.n_reduced < 2,
	     real = STK_PARAMS(stk_job_reduce, &job).domain == STK_ARITH_DOUBLE;
	int64_t stride = g.n_reduced ? g.reduced[0].stride : 0;
	T found = 0;
	bool any = false;
	for (uint32_t k = s.first; k < g.count; k += s.step) {
		T v = x[line ? (int64_t)k * stride : stk__job_offset(g.reduced, g.n_reduced, k)];
		bool better = min ? v < found : v > found;
		found = v == v && (better || !any) ? v : found; /* NaNs are skipped */
		any = any || v == v;
	}
	if (!any)
		return best;
	if (real)
		best.f = (double)found;
	else
		best.u = (uint64_t)found;
	return best;
}

static __device__ __forceinline__ stk_job_value any_share(const stk_job &job, const share &s)
{
	const stk_job_groups &g = STK_PARAMS(stk_job_reduce, &job).groups;
	int32_t size = stk__job_size(job.src_dtype[0]);
	stk_job_value part = stk__job_reduce_identity(&job);
	for (uint32_t k = s.first; k < g.count; k += s.step) {
		const uint8_t *at = s.base + stk__job_offset(g.reduced, g.n_reduced, k) * size;
		part = stk__job_reduce_join(&job, part, stk__job_reduce_term(&job, at, s.mean));
	}
	return part;
}

static __device__ __forceinline__ stk_job_value reduce_share(const stk_job &job, const share &s)
{
	int32_t op = STK_PARAMS(stk_job_reduce, &job).op, dtype = job.src_dtype[0];
	bool extreme = op == STK_REDUCE_MIN || op == STK_REDUCE_MAX, squares = !extreme && op != STK_REDUCE_SUM && op != STK_REDUCE_MEAN;
	switch (dtype) {
	case STK_UINT8:
		return extreme ? extreme_share<uint8_t>(job, s) : sum_share<uint8_t>(job, s, squares);
	case STK_INT16:
		return extreme ? extreme_share<int16_t>(job, s) : sum_share<int16_t>(job, s, squares);
	case STK_INT32:
		return extreme ? extreme_share<int32_t>(job, s) : sum_share<int32_t>(job, s, squares);
	case STK_FLOAT:
		return extreme ? extreme_share<float>(job, s) : sum_share<float>(job, s, squares);
	default:
		return any_share(job, s);
	}
}

/* Reduces a group and stores the result. Either all threads of a thread block share a group (`together`), or the calling thread works for itself. */
static __device__ __forceinline__ void reduce_group(const stk_job &job, uint32_t group, bool together)
{
	const stk_job_groups &g = STK_PARAMS(stk_job_reduce, &job).groups;
	share mine = {job.src[0] + stk__job_offset(g.kept, g.n_kept, group) * stk__job_size(job.src_dtype[0]), together ? threadIdx.x : 0,
		together ? STK_JOB_PARTIAL_SUMS : 1u, stk__job_reduce_mean(&job, group)};
	stk_job_value part = reduce_share(job, mine);
	if (together)
		part = join_lanes(job, part);
	if (!together || threadIdx.x == 0)
		stk__job_reduce_store(&job, job.dst + (int64_t)group * stk__job_size(job.dst_dtype), part);
}

/* Reduces each group of fewer than STK_JOB_SERIAL elements with one thread, and each longer one with a thread block. */
extern "C" __global__ void __launch_bounds__(THREADS) job_reduce(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = v.items[find_item(v)];
	const stk_job_groups &g = STK_PARAMS(stk_job_reduce, &it.job).groups;
	uint32_t block = blockIdx.x - it.block0[v.launch];
	if (g.count >= STK_JOB_SERIAL) {
		reduce_group(it.job, block, true);
		return;
	}
	uint32_t first = block * STK_REDUCE_GROUPS, end = min(first + STK_REDUCE_GROUPS, g.groups);
	for (uint32_t group = first + threadIdx.x; group < end; group += THREADS)
		reduce_group(it.job, group, false);
}
