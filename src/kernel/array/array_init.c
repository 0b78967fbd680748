/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array_kernels.h"

void stk__array_kernels_init(struct stk_array_kernels *k, unsigned cpu)
{
	*k = stk__array_kernels_c;
#ifdef STK_X86
	stk__array_kernels_x86(k, cpu);
#endif
	(void)cpu;
}
