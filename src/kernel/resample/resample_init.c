/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/resample.h"

void stk__resample_kernels_init(struct stk_resample_kernels *k, unsigned cpu)
{
	*k = stk__resample_kernels_c;
#ifdef STK_X86
	stk__resample_kernels_x86(k, cpu);
#elif defined(STK_ARM)
	stk__resample_kernels_arm(k, cpu);
#endif
	(void)cpu;
}
