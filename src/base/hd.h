/* SPDX-License-Identifier: Apache-2.0
 * Small functions that C and CUDA share: the CPU and the GPU compile the same lines, so their results agree. */
#ifndef STK_BASE_HD_H
#define STK_BASE_HD_H

#ifdef __CUDACC__
#define STK_HD static __host__ __device__ __forceinline__
#else
#define STK_HD static inline
#endif

#endif
