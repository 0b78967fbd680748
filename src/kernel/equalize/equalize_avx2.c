/* SPDX-License-Identifier: Apache-2.0 */
#define stk__equalize_run stk__equalize_run_avx2
#include "kernel/equalize/equalize_run.c"
