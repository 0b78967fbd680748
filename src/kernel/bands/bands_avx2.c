/* SPDX-License-Identifier: Apache-2.0 */
#define stk__bands_run stk__bands_run_avx2
#include "kernel/bands/bands_run.c"
