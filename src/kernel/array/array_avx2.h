/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the second compilation: a file that includes this and then a source of loops compiles that source for AVX2. */
#ifndef STK_KERNEL_ARRAY_AVX2_H
#define STK_KERNEL_ARRAY_AVX2_H

#define stk__convert stk__convert_avx2
#define stk__array_run_copy stk__array_run_copy_avx2
#define stk__array_run_one_hot stk__array_run_one_hot_avx2
#define stk__array_run_arithmetic stk__array_run_arithmetic_avx2
#define stk__array_run_normalize stk__array_run_normalize_avx2
#define stk__array_run_sample stk__array_run_sample_avx2
#define stk__array_put stk__array_put_avx2
#define stk__array_fill stk__array_fill_avx2
#define stk__array_source stk__array_source_avx2
#define stk__array_block stk__array_block_avx2
#define stk__array_gather stk__array_gather_avx2
#define stk__array_sums stk__array_sums_avx2
#define stk__array_divided_by_zero stk__array_divided_by_zero_avx2

#endif
