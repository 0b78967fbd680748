/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports knows "f16c" in newer compilers only. That the system saves the registers follows from its answer for AVX2. */
static bool has_f16c(void)
{
	unsigned a, b, c = 0, d;
	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

enum stk_cpu_level stk__cpu_level(void)
{
	const char *forced = getenv("STOKER_CPU");
	if (forced && strcmp(forced, "c") == 0)
		return STK_CPU_C;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && has_f16c())
		return STK_CPU_AVX2;
#endif
	return STK_CPU_C;
}

const char *stk__cpu_level_name(enum stk_cpu_level level)
{
	return level == STK_CPU_AVX2 ? "avx2" : "c";
}
