/* SPDX-License-Identifier: Apache-2.0
 *
 * A job is what an operator on tensors of any shape does to one sample, as plain data. The operator has no other implementation: the CPU runs a job as soon as it is
 * made; for the GPU, jobs are kept, and those of a batch run together (job_gpu.h). Only `struct stk_jobs` knows which of the two happens.
 *
 * This header has what all kinds share. A kind is a folder of src/kernel with a line in job_kinds.h: its parameters and the function that makes it (KIND.h), its
 * loops for the CPU, its kernels (KIND_gpu*.cu), and its struct stk_job_kind (job_kind.h). There are few kinds, and each serves many operators: strided copies with
 * conversion and fill (transpositions, slices, paddings, stacks, flips, casts), element-wise arithmetic with broadcasting, reductions, sampling, filters, ...
 *
 * Both sides give the same bytes, except that a NaN may be another NaN, and that functions of arithmetic_ops.h which call libm (acos, acosh, asin, asinh, atan, atan2,
 * atanh, cbrt, sinh, tanh; sin and cos from 1e5 on) may differ in a float's last bit.
 *
 * Usage, by an operator's lower_jobs:
 *     struct stk_copy_dim dims[STK_MAX_DIMS];
 *     stk__copy_dims(dims, ndim, in->shape, order, start, step, out->shape);
 *     return stk__job_copy(jobs, &call->in[0], &call->out[0], dims, ndim, NULL, false, err); */
#ifndef STK_KERNEL_JOB_H
#define STK_KERNEL_JOB_H

#include "base/hd.h"
#include "stoker/tensor.h"

#include <string.h>

/* STK_JOB_MOST: elements of a job's output, at most. */
enum { STK_JOB_SOURCES = 2, STK_JOB_PARAMS = 312 };
#define STK_JOB_MOST INT32_MAX

/* A dim of the output, outermost first. Outputs begin .. end - 1 have a source, the others are fill. Strides are in bytes; 0 repeats. */
struct stk_job_dim {
	int64_t size, begin, end;
	int64_t dst, src[STK_JOB_SOURCES];
};

/* Pointers are valid on the side that runs the job, except `constants`, which lie in host memory until the job has run or is kept. */
struct stk_job {
	int32_t kind, ndim;
	int64_t n; /* outputs; at least 1 */
	int32_t dst_dtype, src_dtype[STK_JOB_SOURCES];
	uint8_t *dst;
	const uint8_t *src[STK_JOB_SOURCES]; /* of output index 0 in all dims */
	const void *constants;
	void *work; /* memory for intermediate results of the job; the side that runs the job provides it */
	uint64_t constant_bytes, work_bytes;
	struct stk_job_dim dim[STK_MAX_DIMS];
	union {
		uint8_t bytes[STK_JOB_PARAMS]; /* the kind's parameters: STK_PARAMS */
		double aligned;
	} params;
};

/* The parameters of a job as its kind's struct: STK_PARAMS(stk_debayer, job).width. */
#define STK_PARAMS(type, job) (*(const struct type *)(const void *)(job)->params.bytes)
/* The same for the function that makes a job. */
#define STK_PARAMS_SET(type, job) (*(struct type *)(void *)(job)->params.bytes)
/* In each kind's header: its parameters fit. */
#define STK_PARAMS_FIT(type) typedef char type##_fits[sizeof(struct type) <= STK_JOB_PARAMS ? 1 : -1]

/* Copies a job without the dims that it does not have. */
static inline void stk__job_clone(struct stk_job *to, const struct stk_job *job)
{
	memcpy(to, job, offsetof(struct stk_job, dim) + (size_t)job->ndim * sizeof *job->dim);
	memcpy(&to->params, &job->params, sizeof job->params);
}

struct stk_arena;

/* Where an operator's jobs go. keep: copies a job, with its constants, for the GPU; NULL: each job runs on the CPU before the function that makes it returns, with
 * scratch from the arena. */
struct stk_jobs {
	enum stk_status (*keep)(struct stk_jobs *jobs, const struct stk_job *job, struct stk_error *err);
	struct stk_arena *arena;
	unsigned cpu; /* what loops may use of the processor (base/cpu.h); 0: plain C */
};

#endif
