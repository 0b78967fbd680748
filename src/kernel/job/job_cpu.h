/* SPDX-License-Identifier: Apache-2.0
 * For the loops that run jobs on the CPU: elements with strides, and operands in blocks. */
#ifndef STK_KERNEL_JOB_CPU_H
#define STK_KERNEL_JOB_CPU_H

#include "kernel/job/job_place.h"

/* n elements of `element` bytes, with these distances in bytes. Equal distances and sizes make it one memcpy. */
void stk__job_put(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n, int64_t element);

/* n elements that are all the same, one after the other. element: as above. */
void stk__job_fill(uint8_t *dst, const uint8_t *value, int64_t n, int64_t element);

/* ---- operands of what is computed element by element, in blocks of a dense output ---- */

enum { STK_JOB_BLOCK = 512 };

/* How source k lies under the output. */
enum stk_job_pattern {
	STK_JOB_WHOLE,    /* output i is element i */
	STK_JOB_REPEATED, /* output i is element i % period */
	STK_JOB_ELSEWHERE /* by strides */
};
struct stk_job_source {
	enum stk_job_pattern pattern;
	int64_t period; /* of REPEATED: at most STK_JOB_BLOCK; 1 is one value for all */
};
struct stk_job_source stk__job_source(const struct stk_job *job, int k, int32_t element);

/* The outputs of a block: as many as fit, in whole periods of the sources that repeat, so that those are the same in each block. A source whose period
 * does not fit beside the others' becomes one of ELSEWHERE. */
int stk__job_block(struct stk_job_source *sources, int n);

/* Elements of source k under outputs at .. at + n - 1: where they lie, or gathered into `room` (n elements). */
const uint8_t *stk__job_gather(
	const struct stk_job *job, int k, const struct stk_job_source *s, int32_t element, int64_t at, int n, uint8_t *room);

#endif
