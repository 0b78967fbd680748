/* SPDX-License-Identifier: Apache-2.0
 * Normalisation on the GPU for flat jobs (kernel/job/job_flat.h), after the groups were measured. */
#include "kernel/job/job_flat.cuh"
#include "kernel/reduce/normalize.h"

/* The mean and the factor of an output's group. */
struct stats {
	double mean, factor;
};

static __device__ __forceinline__ stats stats_of(const stk_job_gpu_item &it, uint32_t group)
{
	const double *at = (const double *)(it.job.src[1] + (int64_t)group * it.flat.of[1].step);
	stats s = {at[0], at[1]};
	return s;
}

/* Returns an output as stk__job_normalize_one computes it. */
static __device__ __forceinline__ float normalized(double x, const stats &s, double shift)
{
	return (float)((x - s.mean) * s.factor + shift);
}

template <typename T> struct normalizing {
	enum { N = PIECE / sizeof(T) };
	/* Returns whether many pieces can be made together from output `first` on: their elements can be loaded together, and all outputs belong to one group,
	 * or to three groups in turn, one per channel. */
	static __device__ __forceinline__ bool serves(const stk_job_gpu_item &it, uint32_t first)
	{
		const stk_job_repeat &r = it.flat.of[1];
		return read_together<N>(it, 0, first) && (read_one<N>(it, 1, first) || (r.inner == 1 && r.size == 3));
	}
	static __device__ __forceinline__ void run(const stk_job_gpu_item &it, const one_piece<N> &s)
	{
		float v[N];
		load_reals<float>(it, 0, s, v);
		const stk_job_repeat &r = it.flat.of[1];
		uint32_t whole = s.first / r.inner, rest = s.first - whole * r.inner, at = whole % r.size;
#pragma unroll
		for (int j = 0; j < N; j++) {
			v[j] = normalized((double)v[j], stats_of(it, at), STK_PARAMS(stk_job_normalize, &it.job).shift);
			bool next = ++rest == r.inner;
			rest = next ? 0 : rest;
			at += next;
			at = at == r.size ? 0 : at;
		}
		store_floats<T>(it, s, v);
	}
	/* Makes several pieces, which are THREADS pieces apart. This distance is not a multiple of 3, so each piece begins with another channel than the one
	 * before it. */
	static __device__ __forceinline__ void run(const stk_job_gpu_item &it, const many_pieces<N> &s)
	{
		double x[together<N>::OUTPUTS], shift = STK_PARAMS(stk_job_normalize, &it.job).shift;
		float v[together<N>::OUTPUTS];
		stats of[3];
		uint32_t group = element_of(it.flat.of[1], s.first), next = read_one<N>(it, 1, s.first) ? 0 : 1;
#pragma unroll
		for (int k = 0; k < 3; k++) {
			of[k] = stats_of(it, group);
			group = group + next == it.flat.of[1].size && next ? 0 : group + next;
		}
		load_reals<double>(it, 0, s, x);
#pragma unroll
		for (int j = 0; j < together<N>::OUTPUTS; j++)
			v[j] = normalized(x[j], of[(j / N * together<N>::APART + j % N) % 3], shift);
		store_floats<T>(it, s, v);
	}
};

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_normalize_flat(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	int32_t size = stk__job_size(it.job.dst_dtype);
	if (size == 4)
		work_on<uint32_t, normalizing<uint32_t>>(v, it);
	else if (size == 2)
		work_on<uint16_t, normalizing<uint16_t>>(v, it);
	else
		work_on<uint8_t, normalizing<uint8_t>>(v, it);
}
