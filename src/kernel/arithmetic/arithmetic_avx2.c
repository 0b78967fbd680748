/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_avx2.h"
#define stk__arithmetic_run stk__arithmetic_run_avx2
#include "kernel/arithmetic/arithmetic_run.c"
