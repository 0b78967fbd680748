/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/jpeg/jpeg_kernels.h"

#include "base/cpu.h"

void stk__jpeg_kernels_arm(struct stk_jpeg_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_NEON)
		stk__jpeg_kernels_avx2(k);
}
