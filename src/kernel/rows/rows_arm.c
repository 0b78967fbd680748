/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/rows/rows.h"

#include "base/cpu.h"

void stk__row_kernels_arm(struct stk_row_kernels *k, unsigned cpu)
{
	if (cpu & STK_CPU_NEON)
		*k = stk__row_kernels_avx2;
}
