/* SPDX-License-Identifier: Apache-2.0 */
#define stk__enhance_run stk__enhance_run_avx2
#include "kernel/enhance/enhance.c"
