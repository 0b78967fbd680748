/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic on the GPU for flat jobs (kernel/job/job_flat.h). */
#include "kernel/arithmetic/arithmetic.h"
#include "kernel/job/job_flat.cuh"

/* Adds, subtracts or multiplies integers modulo 2^32, and stores the lowest bits. */
template <typename T> struct adding_whole {
	static __device__ __forceinline__ bool serves(const stk_job_gpu_item &it, uint32_t first)
	{
		return read_together<PIECE / sizeof(T)>(it, 0, first) && read_together<PIECE / sizeof(T)>(it, 1, first);
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_job_gpu_item &it, const S &s)
	{
		uint32_t a[S::OUTPUTS], b[S::OUTPUTS];
		T to[S::OUTPUTS];
		load_whole<uint32_t>(it, 0, s, a);
		load_whole<uint32_t>(it, 1, s, b);
		int32_t op = STK_PARAMS(stk_job_arithmetic, &it.job).op;
#pragma unroll
		for (int j = 0; j < S::OUTPUTS; j++)
			to[j] = (T)(op == STK_ARITH_OP_add ? a[j] + b[j] : op == STK_ARITH_OP_sub ? a[j] - b[j] : a[j] * b[j]);
		S::template store<T>(it, s, to);
	}
};

struct adding_reals {
	static __device__ __forceinline__ bool serves(const stk_job_gpu_item &it, uint32_t first)
	{
		return read_together<PIECE / sizeof(float)>(it, 0, first) && read_together<PIECE / sizeof(float)>(it, 1, first);
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_job_gpu_item &it, const S &s)
	{
		float a[S::OUTPUTS], b[S::OUTPUTS];
		load_reals<float>(it, 0, s, a);
		load_reals<float>(it, 1, s, b);
		int32_t op = STK_PARAMS(stk_job_arithmetic, &it.job).op;
#pragma unroll
		for (int j = 0; j < S::OUTPUTS; j++)
			a[j] = op == STK_ARITH_OP_add   ? a[j] + b[j]
			       : op == STK_ARITH_OP_sub ? a[j] - b[j]
			       : op == STK_ARITH_OP_mul ? a[j] * b[j]
							: a[j] / b[j];
		S::template store<float>(it, s, a);
	}
};

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_arithmetic_flat_whole(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	int32_t size = stk__job_size(it.job.dst_dtype);
	if (size == 4)
		work_on<uint32_t, adding_whole<uint32_t>>(v, it);
	else if (size == 2)
		work_on<uint16_t, adding_whole<uint16_t>>(v, it);
	else
		work_on<uint8_t, adding_whole<uint8_t>>(v, it);
}

extern "C" __global__ void __launch_bounds__(THREADS) job_arithmetic_flat_reals(const __grid_constant__ stk_job_gpu_view v)
{
	work_on<float, adding_reals>(v, share_item(v));
}
