/* SPDX-License-Identifier: Apache-2.0 */
#define stk__decibels_run stk__decibels_run_avx2
#include "kernel/decibels/decibels_run.c"
