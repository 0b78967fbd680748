/* SPDX-License-Identifier: Apache-2.0
 * Defines STK_HD, which begins each small function that C and CUDA share. The same source lines run on the CPU and the GPU, so their results agree. */
#ifndef STK_BASE_HD_H
#define STK_BASE_HD_H

#ifdef __CUDACC__
#define STK_HD static __host__ __device__ __forceinline__
#else
#define STK_HD static inline
#endif

#endif
