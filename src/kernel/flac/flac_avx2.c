/* SPDX-License-Identifier: Apache-2.0 */
#define stk__flac_plain stk__flac_avx2
#include "kernel/flac/flac_run.c"
