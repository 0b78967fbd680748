/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/resample.h"

#include "base/cpu.h"

void stk__resample_kernels_x86(struct stk_resample_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_AVX2)
		*k = stk__resample_kernels_avx2;
}
