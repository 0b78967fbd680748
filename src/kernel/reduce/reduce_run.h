/* SPDX-License-Identifier: Apache-2.0
 * Runs reductions and normalisations on the CPU; the job's memory must be host memory. The _avx2 function is the same source compiled for 256-bit registers. */
#ifndef STK_KERNEL_REDUCE_RUN_H
#define STK_KERNEL_REDUCE_RUN_H

#include "kernel/job/job.h"

size_t stk__reduce_scratch(void);                   /* returns the size in bytes of the scratch memory of a reduction */
void stk__reduce_run(const struct stk_job *job);    /* job->work: the scratch memory, aligned to 64 bytes */
void stk__normalize_run(const struct stk_job *job); /* the caller must set job->work */
void stk__normalize_run_avx2(const struct stk_job *job);

#endif
