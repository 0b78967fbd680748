/* SPDX-License-Identifier: Apache-2.0
 * The loops of filters in plain C. */
#include "kernel/filter/filter_loops.h"

#include "base/cpu.h"

const struct stk_filter_kernels stk__filter_kernels_c = {load_bytes, store_bytes, sum, least, largest, median};

void stk__filter_kernels_init(struct stk_filter_kernels *k, unsigned cpu)
{
	*k = stk__filter_kernels_c;
#ifdef STK_X86
	stk__filter_kernels_x86(k, cpu);
#else
	(void)cpu;
#endif
}
