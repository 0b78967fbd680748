/* SPDX-License-Identifier: Apache-2.0
 * Helpers for the loops that run jobs on the CPU: elements with strides, and operands in blocks. */
#ifndef STK_KERNEL_JOB_CPU_H
#define STK_KERNEL_JOB_CPU_H

#include "kernel/job/job_place.h"

/* Copies n elements of `element` bytes. dst_step and src_step: distance in bytes from one element to the next. */
void stk__job_put(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n, int64_t element);

/* Stores n copies of the element at `value`, which has `element` bytes, one after the other. */
void stk__job_fill(uint8_t *dst, const uint8_t *value, int64_t n, int64_t element);

/* ---- operands of element-wise operations, in blocks of a dense output ---- */

enum { STK_JOB_BLOCK = 512 };

/* The element of a source that an output reads. */
enum stk_job_pattern {
	STK_JOB_WHOLE,    /* output i reads element i */
	STK_JOB_REPEATED, /* output i reads element i % period */
	STK_JOB_ELSEWHERE /* the strides of the job's dimensions give the element */
};
struct stk_job_source {
	enum stk_job_pattern pattern;
	int64_t period; /* for REPEATED: number of elements that repeat, at most STK_JOB_BLOCK */
};
/* Returns the pattern of source k of a job, whose elements have `element` bytes. */
struct stk_job_source stk__job_source(const struct stk_job *job, int k, int32_t element);

/* Returns the number of outputs in a block: at most STK_JOB_BLOCK, and a multiple of the period of each source that is still REPEATED afterwards, so that
 * all blocks read the same elements of the source. Sources whose period does not divide the number are changed to ELSEWHERE. n: number of sources. */
int stk__job_block(struct stk_job_source *sources, int n);

/* Returns the address of source k's elements for outputs at .. at + n - 1: in the source itself, or in `buffer` (n elements) if they had to be copied. */
const uint8_t *stk__job_gather(
	const struct stk_job *job, int k, const struct stk_job_source *s, int32_t element, int64_t at, int n, uint8_t *buffer);

#endif
