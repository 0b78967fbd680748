/* SPDX-License-Identifier: Apache-2.0 */
#define stk__transform_run stk__transform_run_avx2
#include "kernel/transform/transform_run.c"
