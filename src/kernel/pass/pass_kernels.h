/* SPDX-License-Identifier: Apache-2.0
 * The CPU kernels that a pass calls: the fastest ones that the processor supports. */
#ifndef STK_KERNEL_PASS_KERNELS_H
#define STK_KERNEL_PASS_KERNELS_H

#include "kernel/resample/resample.h"
#include "kernel/rows/rows.h"
#include "kernel/warp/warp.h"

struct stk_pass_kernels {
	struct stk_resample_kernels resample;
	struct stk_row_kernels rows;
	struct stk_warp_kernels warp;
};

static inline struct stk_pass_kernels stk__pass_kernels(unsigned cpu) /* cpu: STK_CPU_... (base/cpu.h) */
{
	struct stk_pass_kernels k;
	stk__resample_kernels_init(&k.resample, cpu);
	stk__row_kernels_init(&k.rows, cpu);
	stk__warp_kernels_init(&k.warp, cpu);
	return k;
}

#endif
