/* SPDX-License-Identifier: Apache-2.0
 * Runs an arithmetic job on the CPU. STK_INVALID: whole numbers are divided by 0. The job's memory is host memory. _avx2: the same source, compiled for such registers. */
#ifndef STK_KERNEL_ARITHMETIC_RUN_H
#define STK_KERNEL_ARITHMETIC_RUN_H

#include "kernel/job/job.h"

STK_MUST_USE enum stk_status stk__arithmetic_run(const struct stk_job *job, struct stk_error *err);
STK_MUST_USE enum stk_status stk__arithmetic_run_avx2(const struct stk_job *job, struct stk_error *err);

#endif
