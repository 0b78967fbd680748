/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processor can do. Kernels come as tables of functions, one table for each subject: SUBJECT.c fills it with plain C, then SUBJECT_x86.c or
 * SUBJECT_arm.c overrides the functions for which the processor has the instructions. Another architecture is another such file. Whoever needs a table fills it once, and keeps it. */
#ifndef STK_BASE_CPU_H
#define STK_BASE_CPU_H

/* Capabilities: a bit for each set of instructions that files of kernels are compiled for. None: plain C. */
enum {
	STK_CPU_AVX2 = 1 << 0,   /* x86-64: AVX2, BMI1, BMI2, LZCNT and F16C */
	STK_CPU_CRC32C = 1 << 1, /* x86-64: SSE4.2's checksum */
	STK_CPU_NEON = 1 << 2,   /* aarch64, where all have it: what is written for AVX2, by SIMDe (kernel/common/avx2.h) */
};

/* The processor's capabilities, as far as this build has kernels for them; none if the environment has STOKER_CPU=c. Asks both at every call, which
 * takes a virtual machine tens of microseconds: call it once and keep the answer. */
unsigned stk__cpu_capabilities(void);
/* "avx2", "neon", or "c" for none. */
const char *stk__cpu_name(unsigned cpu);

/* Orders stores that bypassed the caches before all that the thread does next, which releasing a lock does not. Call it once for many stores: it
 * waits. */
static inline void stk__stores_fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#endif
}

#endif
