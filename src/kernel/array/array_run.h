/* SPDX-License-Identifier: Apache-2.0
 * Running array jobs on the CPU: the loops for each kind. A job's memory is host memory. */
#ifndef STK_KERNEL_ARRAY_RUN_H
#define STK_KERNEL_ARRAY_RUN_H

#include "kernel/array/array.h"

void stk__array_run_copy(const struct stk_array_job *job);
void stk__array_run_reduce(const struct stk_array_job *job);
void stk__array_run_one_hot(const struct stk_array_job *job);
void stk__array_run_points(const struct stk_array_job *job);
void stk__array_run_sample(const struct stk_array_job *job);
void stk__array_run_resize(const struct stk_array_job *job); /* the caller has set job->work */
STK_MUST_USE enum stk_status stk__array_run_arithmetic(const struct stk_array_job *job, struct stk_error *err);
void stk__array_run_normalize(const struct stk_array_job *job); /* the caller has set job->work */

/* n elements of `element` bytes, with these distances in bytes. Equal distances and sizes make it one memcpy. */
void stk__array_put(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t n, int64_t element);

/* n elements that are all the same, one after the other. element: as above. */
void stk__array_fill(uint8_t *dst, const uint8_t *value, int64_t n, int64_t element);

/* ---- operands of what is computed element by element, in blocks of a dense output ---- */

enum { STK_ARRAY_BLOCK = 512 };

/* How source k lies under the output. */
enum stk_array_pattern {
	STK_ARRAY_WHOLE,    /* output i is element i */
	STK_ARRAY_REPEATED, /* output i is element i % period */
	STK_ARRAY_ELSEWHERE /* by strides */
};
struct stk_array_source {
	enum stk_array_pattern pattern;
	int64_t period; /* of REPEATED: at most STK_ARRAY_BLOCK; 1 is one value for all */
};
struct stk_array_source stk__array_source(const struct stk_array_job *job, int k, int32_t element);

/* The outputs of a block: as many as fit, in whole periods of the sources that repeat, so that those are the same in each block. A source whose period
 * does not fit beside the others' becomes one of ELSEWHERE. */
int stk__array_block(struct stk_array_source *sources, int n);

/* Elements of source k under outputs at .. at + n - 1: where they lie, or gathered into `room` (n elements). */
const uint8_t *stk__array_gather(
	const struct stk_array_job *job, int k, const struct stk_array_source *s, int32_t element, int64_t at, int n, uint8_t *room);

#endif
