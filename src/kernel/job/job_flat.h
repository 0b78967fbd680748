/* SPDX-License-Identifier: Apache-2.0
 * Flat jobs: their outputs are contiguous, and each operand is contiguous too or repeats as in struct stk_job_repeat. Types are floats or integers of at most
 * 32 bits; any type is allowed if values are only moved or replaced (erase, grid_mask). On a GPU, a thread makes the outputs in one aligned piece of 16 bytes.
 * Jobs that are not flat run in other kernels of their kind. */
#ifndef STK_KERNEL_JOB_FLAT_H
#define STK_KERNEL_JOB_FLAT_H

#include "kernel/job/job.h"

enum { STK_JOB_FLAT_PIECE = 16 }; /* the output is divided into aligned pieces of this many bytes */

/* Output i reads element i / inner % size; elements are `step` bytes apart. */
struct stk_job_repeat {
	uint32_t inner, size;
	int32_t step;
};

struct stk_job_flat {
	struct stk_job_repeat of[STK_JOB_SOURCES];
	uint32_t lead;   /* number of elements in the first piece that are before output 0 */
	uint32_t pieces; /* number of pieces; 0: the job is not flat */
};

/* Return whether the kernels of flat jobs can process elements of a type. stk__in_float returns whether float32 holds all values of the type exactly,
 * stk__in_int32 whether the type is an integer type of at most 32 bits. Both return false for bool. */
static inline bool stk__in_float(int32_t dtype)
{
	return dtype == STK_UINT8 || dtype == STK_INT8 || dtype == STK_UINT16 || dtype == STK_INT16 || dtype == STK_FLOAT16 ||
	       dtype == STK_BFLOAT16 || dtype == STK_FLOAT;
}

static inline bool stk__in_int32(int32_t dtype)
{
	return dtype == STK_UINT8 || dtype == STK_INT8 || dtype == STK_UINT16 || dtype == STK_INT16 || dtype == STK_INT32 ||
	       dtype == STK_UINT32;
}

/* Returns the description of a job as a flat job for the GPU; `pieces` is 0 if it is not flat. The job's addresses must be device addresses. */
struct stk_job_flat stk__job_flat_of(const struct stk_job *job);

#endif
