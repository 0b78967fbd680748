/* SPDX-License-Identifier: Apache-2.0
 * Which SIMD twin of a kernel runs. Each family keeps a const table per level; a context picks one when it is made. */
#ifndef STK_BASE_CPU_H
#define STK_BASE_CPU_H

enum stk_cpu_level { STK_CPU_C, STK_CPU_AVX2 };

/* What this processor can do, lowered by the environment's STOKER_CPU=c. Reads both at every call: call it once and keep the answer. */
enum stk_cpu_level stk__cpu_level(void);
const char *stk__cpu_level_name(enum stk_cpu_level level);

/* Orders stores that went past the caches before all that the thread does next; a lock alone is not said to. Once for many of them: it waits. */
static inline void stk__stores_fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#endif
}

#endif
