/* SPDX-License-Identifier: Apache-2.0 */
#define stk__debayer_run stk__debayer_run_avx2
#include "kernel/debayer/debayer.c"
