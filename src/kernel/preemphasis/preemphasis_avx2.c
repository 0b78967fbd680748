/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_avx2.h"
#define stk__preemphasis_run stk__preemphasis_run_avx2
#include "kernel/preemphasis/preemphasis_run.c"
