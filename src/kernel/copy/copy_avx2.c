/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_avx2.h"
#define stk__copy_run stk__copy_run_avx2
#include "kernel/copy/copy_run.c"
