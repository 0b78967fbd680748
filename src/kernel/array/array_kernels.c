/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array_kernels.h"

#include "kernel/array/array_run.h"
#include "kernel/convert/convert.h"

const struct stk_array_kernels stk__array_kernels_c = {stk__convert, stk__array_run_copy, stk__array_run_one_hot, stk__array_run_arithmetic,
	stk__array_run_normalize, stk__jpeg_distortion_run, stk__debayer_run, stk__enhance_run, stk__equalize_run, stk__pointwise_run,
	stk__array_run_sample, stk__transform_run};
