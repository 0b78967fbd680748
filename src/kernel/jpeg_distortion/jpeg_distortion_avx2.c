/* SPDX-License-Identifier: Apache-2.0 */
#define stk__jpeg_distortion_run stk__jpeg_distortion_run_avx2
#include "kernel/jpeg_distortion/jpeg_distortion_run.c"
