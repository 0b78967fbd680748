/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/filter/filter_run.h"

#include "base/cpu.h"

void stk__filter_kernels_x86(struct stk_filter_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_AVX2)
		*k = stk__filter_kernels_avx2;
}
