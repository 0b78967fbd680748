/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_avx2.h"
#define stk__one_hot_run stk__one_hot_run_avx2
#include "kernel/one_hot/one_hot_run.c"
