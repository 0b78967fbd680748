/* SPDX-License-Identifier: Apache-2.0
 * The intrinsics of AVX2 and F16C. On aarch64 SIMDe implements each of them with NEON instructions that give the same bits. */
#ifndef STK_KERNEL_COMMON_AVX2_H
#define STK_KERNEL_COMMON_AVX2_H

#if defined(__x86_64__)
#include <immintrin.h>
#else
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/f16c.h>
#endif

#endif
