/* SPDX-License-Identifier: Apache-2.0
 * Runs a copy job on the CPU; source and output must be in host memory. The _avx2 function is compiled from the same source for 256-bit registers. */
#ifndef STK_KERNEL_COPY_RUN_H
#define STK_KERNEL_COPY_RUN_H

#include "kernel/job/job.h"

void stk__copy_run(const struct stk_job *job);
void stk__copy_run_avx2(const struct stk_job *job);

#endif
