/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef STK_X86
#include <cpuid.h>

/* __builtin_cpu_supports knows "f16c" and "lzcnt" in newer compilers only. Its answer for AVX2 says that the system saves the registers. */
static unsigned detected(void)
{
	unsigned a, b, c = 0, d, extended = 0;
	bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
	bool lzcnt = __get_cpuid(0x80000001, &a, &b, &extended, &d) && (extended & bit_LZCNT);
	__builtin_cpu_init();
	bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
	return avx2 && f16c && lzcnt ? STK_CPU_AVX2 : 0;
}
#else
static unsigned detected(void)
{
	return 0;
}
#endif

unsigned stk__cpu_capabilities(void)
{
	const char *forced = getenv("STOKER_CPU");
	return forced && strcmp(forced, "c") == 0 ? 0 : detected();
}

const char *stk__cpu_name(unsigned cpu)
{
	return cpu & STK_CPU_AVX2 ? "avx2" : "c";
}
