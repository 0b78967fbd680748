/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/warp/warp.h"

void stk__warp_kernels_init(struct stk_warp_kernels *k, unsigned cpu)
{
	*k = stk__warp_kernels_c;
#ifdef STK_X86
	stk__warp_kernels_x86(k, cpu);
#endif
	(void)cpu;
}
