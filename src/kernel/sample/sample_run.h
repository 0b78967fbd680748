/* SPDX-License-Identifier: Apache-2.0
 * Runs a job that samples (sample.h) on the CPU; its memory must be host memory. The _avx2 function is compiled for 256-bit registers. */
#ifndef STK_KERNEL_SAMPLE_RUN_H
#define STK_KERNEL_SAMPLE_RUN_H

#include "kernel/job/job.h"

void stk__sample_run(const struct stk_job *job);
void stk__sample_run_avx2(const struct stk_job *job);

#endif
