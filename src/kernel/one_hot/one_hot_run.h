/* SPDX-License-Identifier: Apache-2.0
 * Runs a one-hot job on the CPU; its memory must be host memory. The _avx2 function is the same source compiled for 256-bit registers. */
#ifndef STK_KERNEL_ONE_HOT_RUN_H
#define STK_KERNEL_ONE_HOT_RUN_H

#include "kernel/job/job.h"

void stk__one_hot_run(const struct stk_job *job);
void stk__one_hot_run_avx2(const struct stk_job *job);

#endif
