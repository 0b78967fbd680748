/* SPDX-License-Identifier: Apache-2.0
 * Lookups on the GPU whose keys are bytes and whose table has entries larger than a byte, or fewer than 256 entries. The table is in shared memory, and a
 * thread looks up the four keys in a word if it can. Other lookups run as jobs over images (kernel/image/image.h) or in pointwise_gpu.cu. */
#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"
#include "kernel/pointwise/pointwise_element.h"
#include "kernel/pointwise/pointwise_lookup.h"

#define THREADS STK_JOB_THREADS
#define KEYS STK_LOOKUP_KEYS
#define WORDS (KEYS / (4 * THREADS)) /* number of words of keys that each thread looks up */
#define TABLE 256

/* The entries of four adjacent keys. */
template <typename T> struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) four {
	T of[4];
};

/* Looks up the keys of a thread block, from key `first` on. All threads must call this. */
template <typename T>
static __device__ __forceinline__ void look_up(const stk_pointwise &p, const stk_pointwise_data &d, uint32_t first, uint64_t *shared)
{
	const uint32_t n = min((uint32_t)d.n - first, (uint32_t)KEYS);
	const uint8_t *src = d.src + first;
	T *dst = (T *)(void *)d.dst + first, *table = (T *)(void *)shared;
	const bool words = n == KEYS && ((uintptr_t)src & 3) == 0 && (uintptr_t)dst % alignof(four<T>) == 0;
	uint32_t keys[WORDS];
#pragma unroll
	for (int k = 0; k < WORDS && words; k++)
		keys[k] = __ldg((const uint32_t *)(const void *)src + THREADS * k + threadIdx.x);
	for (uint32_t i = threadIdx.x; i < TABLE; i += THREADS)
		table[i] = i < p.lookup.entries ? ((const T *)d.constants)[i] : *(const T *)(const void *)p.lookup.other;
	__syncthreads();
	if (!words) {
		for (uint32_t i = threadIdx.x; i < n; i += THREADS)
			dst[i] = table[src[i]];
		return;
	}
#pragma unroll
	for (int k = 0; k < WORDS; k++) {
		four<T> entries;
#pragma unroll
		for (int b = 0; b < 4; b++)
			entries.of[b] = table[keys[k] >> 8 * b & 255];
		((four<T> *)(void *)dst)[THREADS * k + threadIdx.x] = entries;
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) job_lookup(const __grid_constant__ stk_job_gpu_view v)
{
	__shared__ uint64_t table[TABLE];
	const stk_job_gpu_item &it = v.items[find_item(v)];
	const stk_pointwise_data data = stk__job_pointwise_data(&it.job);
	const stk_pointwise &p = STK_PARAMS(stk_pointwise, &it.job);
	const uint32_t first = (blockIdx.x - it.block0[v.launch]) * KEYS;
	switch (data.dst_size) {
	case 1:
		look_up<uint8_t>(p, data, first, table);
		break;
	case 2:
		look_up<uint16_t>(p, data, first, table);
		break;
	case 4:
		look_up<uint32_t>(p, data, first, table);
		break;
	default:
		look_up<uint64_t>(p, data, first, table);
	}
}
