/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_avx2.h"
#define stk__sinc_run stk__sinc_run_avx2
#include "kernel/sinc/sinc_run.c"
