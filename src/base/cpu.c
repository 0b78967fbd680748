/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef STK_X86
#include <cpuid.h>

/* Returns whether the operating system saves the AVX registers. */
static bool wide_registers_are_saved(void)
{
	unsigned low, high;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & 6) == 6;
}

/* Returns whether the processor has AVX2 and the instruction sets that come with it. first: register ECX of leaf 1 of CPUID. */
static bool has_avx2(unsigned first)
{
	unsigned a, b, c, d, seventh = 0, extended = 0;
	const unsigned one = bit_OSXSAVE | bit_AVX | bit_F16C, seven = bit_AVX2 | bit_BMI | bit_BMI2;
	return (first & one) == one && wide_registers_are_saved() && __get_cpuid_count(7, 0, &a, &seventh, &c, &d) &&
	       (seventh & seven) == seven && __get_cpuid(0x80000001, &a, &b, &extended, &d) && (extended & bit_LZCNT);
}

/* Returns the capabilities of the processor (cpu.h). Uses the CPUID instruction, because __builtin_cpu_supports knows "f16c" and "lzcnt" only in newer
 * compilers, and does not work with Zig's compiler runtime. */
static unsigned detected(void)
{
	unsigned a, b, first = 0, d;
	if (!__get_cpuid(1, &a, &b, &first, &d))
		return 0;
	return (has_avx2(first) ? STK_CPU_AVX2 : 0) | (first & bit_SSE4_2 ? STK_CPU_CRC32C : 0) | (first & bit_PCLMUL ? STK_CPU_CLMUL : 0);
}
#elif defined(STK_ARM)
static unsigned detected(void)
{
	return STK_CPU_NEON;
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
	return cpu & STK_CPU_AVX2 ? "avx2" : cpu & STK_CPU_NEON ? "neon" : "c";
}
