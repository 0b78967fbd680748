/* SPDX-License-Identifier: Apache-2.0 */
#define stk__pointwise_run stk__pointwise_run_avx2
#include "kernel/pointwise/pointwise_run.c"
