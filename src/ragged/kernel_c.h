/* SPDX-License-Identifier: Apache-2.0
 * The CUDA kernels of this layer are C: with this header they compile as device code, and after test/c/cuda_emulate.h as plain C, so that
 * their logic is tested where there is no GPU. */
#ifndef STK_RAGGED_KERNEL_C_H
#define STK_RAGGED_KERNEL_C_H

#ifndef STK_CUDA_EMULATE
#define STK_KERNEL extern "C" __global__
#define STK_DEVICE static __device__ __forceinline__
#define STK_SHARED_ARRAY(type, name) extern __shared__ type name[]
#define STK_FULL 0xffffffffu

/* Least of all lanes, in all lanes. */
STK_DEVICE unsigned stk__warp_min(unsigned v)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_min_sync(STK_FULL, v);
#else
	for (int d = 16; d; d >>= 1) {
		unsigned other = __shfl_xor_sync(STK_FULL, v, d);
		v = other < v ? other : v;
	}
	return v;
#endif
}

/* Copies of 4 bytes from device to shared memory that go on by themselves; commit closes a group; wait(n): all but the last n groups are there. */
STK_DEVICE void stk__copy_ahead(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
	*(float *)to = *(const float *)from;
#endif
}

STK_DEVICE void stk__copy_commit(void)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 800
#define stk__copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#else
#define stk__copy_wait(n) ((void)0)
#endif
#endif

#include "ragged/items.h"
#include "stoker/batching.h"

#endif
