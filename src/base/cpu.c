/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

enum stk_cpu_level stk__cpu_level(void)
{
	const char *forced = getenv("STOKER_CPU");
	if (forced && strcmp(forced, "c") == 0)
		return STK_CPU_C;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c"))
		return STK_CPU_AVX2;
#endif
	return STK_CPU_C;
}

const char *stk__cpu_level_name(enum stk_cpu_level level)
{
	return level == STK_CPU_AVX2 ? "avx2" : "c";
}
