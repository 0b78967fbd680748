/* SPDX-License-Identifier: Apache-2.0
 * What this layer's CUDA kernels, which are all but C, begin with. */
#ifndef STK_RAGGED_KERNEL_C_H
#define STK_RAGGED_KERNEL_C_H

#include "kernel/common/cuda.cuh"
#include "ragged/items.h"
#include "stoker/batching.h"

#define STK_KERNEL extern "C" __global__
#define STK_DEVICE static __device__ __forceinline__
#define STK_FULL 0xffffffffu

#endif
