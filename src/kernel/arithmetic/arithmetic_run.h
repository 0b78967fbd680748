/* SPDX-License-Identifier: Apache-2.0
 * Runs an arithmetic job on the CPU; its memory must be host memory. STK_INVALID: integers were divided by 0. The _avx2 function is the same source compiled
 * for 256-bit registers. */
#ifndef STK_KERNEL_ARITHMETIC_RUN_H
#define STK_KERNEL_ARITHMETIC_RUN_H

#include "kernel/job/job.h"

STK_MUST_USE enum stk_status stk__arithmetic_run(const struct stk_job *job, struct stk_error *err);
STK_MUST_USE enum stk_status stk__arithmetic_run_avx2(const struct stk_job *job, struct stk_error *err);

#endif
