/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"
#include "ragged/assign_loops.h"

void stk__assign_kernels_x86(struct stk_assign_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_AVX2)
		*k = stk__assign_kernels_avx2;
}
