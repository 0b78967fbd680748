/* SPDX-License-Identifier: Apache-2.0 */
#define stk__spectrum_run stk__spectrum_run_avx2
#define stk__spectrum_run_bands stk__spectrum_run_bands_avx2
#define stk__spectrum_scratch stk__spectrum_scratch_avx2
#include "kernel/spectrum/spectrum_run.c"
