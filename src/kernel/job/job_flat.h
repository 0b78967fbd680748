/* SPDX-License-Identifier: Apache-2.0
 * Flat jobs: those whose outputs lie behind each other, and whose operands do so too or repeat a row of elements, of types that float32 or int32 holds, or of any
 * type where values are only moved or replaced (erase, grid_mask). On a GPU a thread makes the 16 bytes of outputs that lie in one aligned piece of memory, in the
 * few types named below; other jobs take an output a thread. */
#ifndef STK_KERNEL_JOB_FLAT_H
#define STK_KERNEL_JOB_FLAT_H

#include "kernel/job/job.h"

enum { STK_JOB_FLAT_PIECE = 16 }; /* bytes */

/* Output i reads element i / inner % size, `step` bytes from one to the next. */
struct stk_job_repeat {
	uint32_t inner, size;
	int32_t step;
};

struct stk_job_flat {
	struct stk_job_repeat of[STK_JOB_SOURCES];
	uint32_t lead;   /* outputs that are missing at the front of the first piece */
	uint32_t pieces; /* 0: the job is not flat */
};

/* For kinds: types whose values float32 holds, and whole numbers whose sums and products modulo 2^32 follow from them modulo 2^32. */
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

/* Works out what the GPU needs to know of a job whose addresses are the device's. */
struct stk_job_flat stk__job_flat_of(const struct stk_job *job);

#endif
