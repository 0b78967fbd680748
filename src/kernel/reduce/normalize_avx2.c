/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_avx2.h"
#define stk__normalize_run stk__normalize_run_avx2
#define stk__job_sums stk__job_sums_avx2
#include "kernel/reduce/normalize_run.c"
