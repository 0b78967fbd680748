/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/warp/warp.h"

#include "base/cpu.h"

void stk__warp_kernels_x86(struct stk_warp_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_AVX2)
		*k = stk__warp_kernels_avx2;
}
