/* SPDX-License-Identifier: Apache-2.0
 * Common definitions of this layer's CUDA kernels, which are written almost entirely in C. */
#ifndef STK_RAGGED_KERNEL_C_H
#define STK_RAGGED_KERNEL_C_H

#include "kernel/common/cuda.cuh"
#include "ragged/items.h"
#include "stoker/batching.h"

#define STK_KERNEL extern "C" __global__
#define STK_DEVICE static __device__ __forceinline__
#define STK_FULL 0xffffffffu

/* Counts one refused index or problem. refused: the counter, or NULL. */
STK_DEVICE void refuse(uint64_t *refused)
{
	if (refused)
		atomicAdd((unsigned long long *)refused, 1ull);
}

#endif
