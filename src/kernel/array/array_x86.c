/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array_kernels.h"

#include "base/cpu.h"

void stk__array_kernels_x86(struct stk_array_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_AVX2)
		*k = stk__array_kernels_avx2;
}
