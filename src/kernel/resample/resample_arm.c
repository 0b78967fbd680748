/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/resample.h"

#include "base/cpu.h"

void stk__resample_kernels_arm(struct stk_resample_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_NEON)
		*k = stk__resample_kernels_avx2;
}
