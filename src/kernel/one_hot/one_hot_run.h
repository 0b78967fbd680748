/* SPDX-License-Identifier: Apache-2.0
 * Runs a one-hot job on the CPU; input and output must be in host memory. _avx2: the same source, compiled for AVX2. */
#ifndef STK_KERNEL_ONE_HOT_RUN_H
#define STK_KERNEL_ONE_HOT_RUN_H

#include "kernel/job/job.h"

void stk__one_hot_run(const struct stk_job *job);
void stk__one_hot_run_avx2(const struct stk_job *job);

#endif
