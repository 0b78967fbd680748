/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/flac/flac.h"

#include "base/cpu.h"

const struct stk_flac_loops *stk__flac_loops(unsigned cpu)
{
#ifdef STK_X86
	if (cpu & STK_CPU_AVX2)
		return cpu & STK_CPU_CLMUL ? &stk__flac_clmul : &stk__flac_avx2;
#endif
	(void)cpu;
	return &stk__flac_plain;
}
