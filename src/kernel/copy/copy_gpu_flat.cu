/* SPDX-License-Identifier: Apache-2.0
 * Copies on the GPU for flat jobs (kernel/job/job_flat.h). */
#include "kernel/copy/copy.h"
#include "kernel/job/job_flat.cuh"

template <typename T> struct copying {
	static __device__ __forceinline__ bool serves(const stk_job_gpu_item &it, uint32_t first)
	{
		return ((uintptr_t)it.job.src[0] + (uint64_t)first * sizeof(T)) % PIECE == 0;
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_job_gpu_item &it, const S &s)
	{
		T v[S::OUTPUTS];
		S::template load<T, T>(it, 0, s, v);
		S::template store<T>(it, s, v);
	}
};

template <typename T> struct converting {
	static __device__ __forceinline__ bool serves(const stk_job_gpu_item &it, uint32_t first)
	{
		return read_together<PIECE / sizeof(T)>(it, 0, first);
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_job_gpu_item &it, const S &s)
	{
		float v[S::OUTPUTS];
		load_reals<float>(it, 0, s, v);
		store_floats<T>(it, s, v);
	}
};

extern "C" __global__ void __launch_bounds__(THREADS) job_copy_flat(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	switch (STK_PARAMS(stk_job_copy, &it.job).element) {
	case 1:
		return work_on<uint8_t, copying<uint8_t>>(v, it);
	case 2:
		return work_on<uint16_t, copying<uint16_t>>(v, it);
	case 4:
		return work_on<uint32_t, copying<uint32_t>>(v, it);
	default:
		return work_on<uint64_t, copying<uint64_t>>(v, it);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) job_convert_flat(const __grid_constant__ stk_job_gpu_view v)
{
	const stk_job_gpu_item &it = share_item(v);
	int32_t size = stk__job_size(it.job.dst_dtype);
	if (size == 4)
		work_on<uint32_t, converting<uint32_t>>(v, it);
	else if (size == 2)
		work_on<uint16_t, converting<uint16_t>>(v, it);
	else
		work_on<uint8_t, converting<uint8_t>>(v, it);
}
