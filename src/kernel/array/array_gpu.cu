/* SPDX-License-Identifier: Apache-2.0
 * Array jobs on the GPU (array_gpu.h): the functions of array_element.h, an output a thread. */
#include "kernel/array/array_element.h"
#include "kernel/array/array_gpu_find.cuh"
#include "kernel/array/array_resize.h"
#include "kernel/array/array_sample.h"

#define THREADS STK_ARRAY_GPU_THREADS

/* COPY and ONE_HOT. */
extern "C" __global__ void __launch_bounds__(THREADS) array_copy(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS) {
		stk_array_place p = stk__array_place(&it.job, i);
		if (v.launch == STK_ARRAY_COPY)
			stk__array_copy_one(&it.job, &p);
		else
			stk__array_one_hot_one(&it.job, &p, i);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) array_arithmetic(const __grid_constant__ stk_array_gpu_view v)
{
	uint32_t item = find_item(v);
	const stk_array_gpu_item &it = v.items[item];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS) {
		stk_array_place p = stk__array_place(&it.job, i);
		if (!stk__array_arithmetic_one(&it.job, &p))
			v.flags[item] = 1;
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) array_normalize(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS) {
		stk_array_place p = stk__array_place(&it.job, i);
		stk__array_normalize_one(&it.job, &p);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) array_points(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__array_points_one(&it.job, i);
}

extern "C" __global__ void __launch_bounds__(THREADS) array_sample(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	outputs o = outputs_of(v, it, it.job.n);
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__array_sample_one(&it.job, i);
}

/* A launch for each phase. */
extern "C" __global__ void __launch_bounds__(THREADS) array_resize(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	int phase = v.launch == STK_ARRAY_RESIZE ? 0 : v.launch - STK_ARRAY_GPU_RESIZE_1 + 1;
	outputs o = outputs_of(v, it, stk__resize_outputs(&it.job.resize.phase[phase]));
	for (uint32_t i = o.begin; i < o.end; i += THREADS)
		stk__array_resize_one(&it.job, phase, i);
}

/* ---- measures ---- */

/* What values add to a sum: themselves, or the square of their distance from the mean. */
struct term {
	double mean;
	bool squares;
};

/* Sums elements first, first + step, ... of the group at `base`. */
static __device__ __forceinline__ double sum_elements(const stk_array_job &job, const uint8_t *base, uint32_t first, uint32_t step, term t)
{
	const stk_array_groups &g = job.normalize.groups;
	int32_t size = stk__array_size(job.src_dtype[0]);
	double sum = 0;
	for (uint32_t k = first; k < g.count; k += step) {
		double x = (double)stk__array_float(base + stk__array_offset(g.reduced, g.n_reduced, k) * size, job.src_dtype[0]) - t.mean;
		sum += t.squares ? x * x : x;
	}
	return sum;
}

/* The sum of all threads' sums, pairwise as array.h says, for all of them. */
static __device__ __forceinline__ double sum_lanes(double sum)
{
	__shared__ double sums[STK_ARRAY_PARTIAL_SUMS];
	sums[threadIdx.x] = sum;
	__syncthreads();
	for (uint32_t apart = STK_ARRAY_PARTIAL_SUMS / 2; apart > 0; apart /= 2) {
		if (threadIdx.x < apart)
			sums[threadIdx.x] += sums[threadIdx.x + apart];
		__syncthreads();
	}
	double total = sums[0];
	__syncthreads();
	return total;
}

/* Measures a group with one thread, or `together` with all of a thread block. */
static __device__ __forceinline__ void measure_group(const stk_array_job &job, uint32_t group, bool together)
{
	const stk_array_normalize &n = job.normalize;
	const stk_array_groups &g = n.groups;
	uint32_t first = together ? threadIdx.x : 0, step = together ? STK_ARRAY_PARTIAL_SUMS : 1;
	const uint8_t *base = job.src[0] + stk__array_offset(g.kept, g.n_kept, group) * stk__array_size(job.src_dtype[0]);
	bool exact = stk__array_measures_exactly(&job);
	double sum = 0, squares = 0;
	if (!n.n_mean) {
		term values = {0, false};
		sum = sum_elements(job, base, first, step, values);
		sum = together ? sum_lanes(sum) : sum;
	}
	double mean = stk__array_mean(&job, group, sum);
	if (!n.n_factor) {
		term distances = {exact ? 0 : mean, true};
		squares = sum_elements(job, base, first, step, distances);
		squares = together ? sum_lanes(squares) : squares;
		squares = exact ? stk__array_spread(g.count, sum, squares) : squares;
	}
	if (together && threadIdx.x > 0)
		return;
	double *stats = (double *)job.work + 2 * group;
	stats[0] = mean;
	stats[1] = stk__array_factor(&job, group, squares);
}

/* A thread works on groups that are short, else a thread block on one. */
extern "C" __global__ void __launch_bounds__(THREADS) array_measure(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	const stk_array_groups &g = it.job.normalize.groups;
	uint32_t block = blockIdx.x - it.block0[v.launch];
	if (g.count >= STK_ARRAY_SERIAL) {
		measure_group(it.job, block, true);
		return;
	}
	uint32_t first = block * STK_ARRAY_GPU_GROUPS, end = min(first + STK_ARRAY_GPU_GROUPS, g.groups);
	for (uint32_t group = first + threadIdx.x; group < end; group += THREADS)
		measure_group(it.job, group, false);
}

/* ---- reductions ---- */

/* Joins all threads' parts of a group in the order that array.h fixes; thread 0 gets the result. */
static __device__ __forceinline__ stk_array_value join_lanes(const stk_array_job &job, stk_array_value part)
{
	__shared__ stk_array_value parts[STK_ARRAY_PARTIAL_SUMS];
	parts[threadIdx.x] = part;
	__syncthreads();
	for (uint32_t apart = STK_ARRAY_PARTIAL_SUMS / 2; apart > 0; apart /= 2) {
		if (threadIdx.x < apart)
			parts[threadIdx.x] = stk__array_reduce_join(&job, parts[threadIdx.x], parts[threadIdx.x + apart]);
		__syncthreads();
	}
	return parts[0];
}

/* A thread's share of its group: elements first, first + step, ... */
struct share {
	const uint8_t *base;
	uint32_t first, step;
	double mean;
};

/* Elements of T, as the job's domain holds it: the loops below know the type beforehand, and where elements lie if only one dim is reduced. */
template <typename T> static __device__ __forceinline__ stk_array_value sum_share(const stk_array_job &job, const share &s, bool squares)
{
	const stk_array_groups &g = job.reduce.groups;
	const T *x = (const T *)s.base;
	stk_array_value sum = stk__array_reduce_identity(&job);
	int64_t stride = g.n_reduced ? g.reduced[0].stride : 0;
	bool line = g.n_reduced < 2;
	for (uint32_t k = s.first; k < g.count; k += s.step) {
		T v = x[line ? (int64_t)k * stride : stk__array_offset(g.reduced, g.n_reduced, k)];
		if (job.reduce.domain == STK_ARITH_DOUBLE) {
			double d = (double)v - s.mean;
			sum.f += squares ? d * d : d;
		} else {
			uint64_t whole = (uint64_t)v;
			sum.u += squares ? whole * whole : whole;
		}
	}
	return sum;
}

template <typename T> static __device__ __forceinline__ stk_array_value extreme_share(const stk_array_job &job, const share &s)
{
	const stk_array_groups &g = job.reduce.groups;
	const T *x = (const T *)s.base;
	stk_array_value best = stk__array_reduce_identity(&job);
	bool min = job.reduce.op == STK_REDUCE_MIN, line = g.n_reduced < 2, real = job.reduce.domain == STK_ARITH_DOUBLE;
	int64_t stride = g.n_reduced ? g.reduced[0].stride : 0;
	T found = 0;
	bool any = false;
	for (uint32_t k = s.first; k < g.count; k += s.step) {
		T v = x[line ? (int64_t)k * stride : stk__array_offset(g.reduced, g.n_reduced, k)];
		bool better = min ? v < found : v > found;
		found = v == v && (better || !any) ? v : found; /* NaN are passed over */
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

static __device__ __forceinline__ stk_array_value any_share(const stk_array_job &job, const share &s)
{
	const stk_array_groups &g = job.reduce.groups;
	int32_t size = stk__array_size(job.src_dtype[0]);
	stk_array_value part = stk__array_reduce_identity(&job);
	for (uint32_t k = s.first; k < g.count; k += s.step) {
		const uint8_t *at = s.base + stk__array_offset(g.reduced, g.n_reduced, k) * size;
		part = stk__array_reduce_join(&job, part, stk__array_reduce_term(&job, at, s.mean));
	}
	return part;
}

static __device__ __forceinline__ stk_array_value reduce_share(const stk_array_job &job, const share &s)
{
	int32_t op = job.reduce.op, dtype = job.src_dtype[0];
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

/* Reduces a group with one thread, or `together` with all of a thread block. */
static __device__ __forceinline__ void reduce_group(const stk_array_job &job, uint32_t group, bool together)
{
	const stk_array_groups &g = job.reduce.groups;
	share mine = {job.src[0] + stk__array_offset(g.kept, g.n_kept, group) * stk__array_size(job.src_dtype[0]),
		together ? threadIdx.x : 0, together ? STK_ARRAY_PARTIAL_SUMS : 1u, stk__array_reduce_mean(&job, group)};
	stk_array_value part = reduce_share(job, mine);
	if (together)
		part = join_lanes(job, part);
	if (!together || threadIdx.x == 0)
		stk__array_reduce_store(&job, job.dst + (int64_t)group * stk__array_size(job.dst_dtype), part);
}

/* As array_measure. */
extern "C" __global__ void __launch_bounds__(THREADS) array_reduce(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	const stk_array_groups &g = it.job.reduce.groups;
	uint32_t block = blockIdx.x - it.block0[v.launch];
	if (g.count >= STK_ARRAY_SERIAL) {
		reduce_group(it.job, block, true);
		return;
	}
	uint32_t first = block * STK_ARRAY_GPU_GROUPS, end = min(first + STK_ARRAY_GPU_GROUPS, g.groups);
	for (uint32_t group = first + threadIdx.x; group < end; group += THREADS)
		reduce_group(it.job, group, false);
}
