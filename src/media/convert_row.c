/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"
#include "media/convert.h"

stk_yuv_row *stk__yuv_row_for(unsigned cpu)
{
#ifdef STK_X86
	if (cpu & STK_CPU_AVX2)
		return stk__yuv_row_avx2;
#endif
	(void)cpu;
	return stk__yuv_row;
}
