/* SPDX-License-Identifier: Apache-2.0
 * Renames the functions that all loops of jobs share, so that they can be compiled a second time, for AVX2. A file for AVX2 includes this header, renames
 * its own function, and includes the source of its loops. */
#ifndef STK_KERNEL_JOB_AVX2_H
#define STK_KERNEL_JOB_AVX2_H

#define stk__convert stk__convert_avx2
#define stk__job_put stk__job_put_avx2
#define stk__job_fill stk__job_fill_avx2
#define stk__job_source stk__job_source_avx2
#define stk__job_block stk__job_block_avx2
#define stk__job_gather stk__job_gather_avx2

#endif
