/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array_kernels.h"

#include "kernel/array/array_avx2.h"
#include "kernel/array/array_run.h"
#include "kernel/convert/convert.h"

const struct stk_array_kernels stk__array_kernels_avx2 = {stk__convert, stk__array_run_copy, stk__array_run_one_hot,
	stk__array_run_arithmetic, stk__array_run_normalize, stk__jpeg_distortion_run_avx2, stk__debayer_run_avx2, stk__enhance_run_avx2,
	stk__equalize_run_avx2, stk__pointwise_run_avx2, stk__array_run_sample, stk__transform_run_avx2};
