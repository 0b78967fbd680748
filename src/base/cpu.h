/* SPDX-License-Identifier: Apache-2.0
 * Determines the instruction sets of the processor. Each subject keeps its kernels in a table of functions: SUBJECT.c fills the table with plain C, then
 * SUBJECT_x86.c or SUBJECT_arm.c overrides the functions for which the processor has the instructions. Support for another architecture is one more such file.
 * Code that needs a table fills it once and stores it. */
#ifndef STK_BASE_CPU_H
#define STK_BASE_CPU_H

/* Capabilities: one bit for each instruction set that kernel files are compiled for. 0 means plain C. */
enum {
	STK_CPU_AVX2 = 1 << 0,   /* x86-64: AVX2, BMI1, BMI2, LZCNT and F16C */
	STK_CPU_CRC32C = 1 << 1, /* x86-64: the CRC32C instructions of SSE4.2 */
	STK_CPU_CLMUL = 1 << 3,  /* x86-64: PCLMULQDQ, a multiplication without carries */
	STK_CPU_NEON = 1 << 2,   /* aarch64, where all processors have it: the AVX2 code, compiled through SIMDe (kernel/common/avx2.h) */
};

/* Returns the capabilities of the processor for which this build has kernels; 0 if the environment has STOKER_CPU=c. Each call asks the processor and the
 * environment, which takes tens of microseconds in a virtual machine: call it once and store the result. */
unsigned stk__cpu_capabilities(void);
/* Returns "avx2", "neon", or "c" if `cpu` has neither. */
const char *stk__cpu_name(unsigned cpu);

/* Makes the thread's earlier non-temporal stores (those that bypass the caches) visible to other threads before all its later stores; releasing a lock does
 * not ensure this. Call it once after many stores, since it waits for them. */
static inline void stk__stores_fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#endif
}

#endif
