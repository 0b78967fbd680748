/* SPDX-License-Identifier: Apache-2.0
 *
 * A job is the work of an operator on one sample, described as plain data. Operators on tensors of any shape make jobs and have no other implementation. The
 * CPU runs a job as soon as it is made (unless it is held: struct stk_held_job). For the GPU, jobs are collected, and all jobs of a batch run together
 * (job_gpu.h). The operator does not know which of the two happens: struct stk_jobs decides.
 *
 * This header has the parts that all kinds share. A kind has a line in job_kinds.h and usually a folder in src/kernel, with its parameters and the function
 * that makes its jobs (KIND.h), loops for the CPU, kernels (KIND_gpu*.cu), and a struct stk_job_kind (job_kind.h). Some kinds serve many operators: strided
 * copies with conversion and fill (transpositions, slices, paddings, stacks, flips, casts), element-wise arithmetic with broadcasting, reductions,
 * sampling, filters, ...
 *
 * CPU and GPU give the same bytes, with two exceptions: a NaN may be another NaN, and functions of arithmetic_ops.h that call libm (acos, acosh, asin,
 * asinh, atan, atan2, atanh, cbrt, sinh, tanh; sin, cos and tan from 1e5 on) may differ in a float's last bit.
 *
 * Usage, in an operator's lower_jobs:
 *     struct stk_copy_dim dims[STK_MAX_DIMS];
 *     stk__copy_dims(dims, ndim, in->shape, order, start, step, out->shape);
 *     return stk__job_copy(jobs, &call->in[0], &call->out[0], dims, ndim, NULL, false, err); */
#ifndef STK_KERNEL_JOB_H
#define STK_KERNEL_JOB_H

#include "base/hd.h"
#include "stoker/tensor.h"

#include <string.h>

/* STK_JOB_SOURCES: maximum number of sources; STK_JOB_PARAMS: size in bytes of the memory for a kind's parameters; STK_JOB_MOST: maximum number of outputs. */
enum { STK_JOB_SOURCES = 2, STK_JOB_PARAMS = 312 };
#define STK_JOB_MOST INT32_MAX

/* A dimension of the output. Output indices begin .. end - 1 are computed from the sources, all others get the fill value. dst and src are strides in bytes;
 * stride 0 repeats one element. */
struct stk_job_dim {
	int64_t size, begin, end;
	int64_t dst, src[STK_JOB_SOURCES];
};

/* A job. Pointers are host or device addresses, depending on where the job runs. When a job is made, `constants` points to host memory, which stays valid until
 * the job has run or the constants were copied for the GPU. Dimensions are in order, the outermost first. */
struct stk_job {
	int32_t kind, ndim;
	int64_t n; /* number of outputs; at least 1 */
	int32_t dst_dtype, src_dtype[STK_JOB_SOURCES];
	uint8_t *dst;
	const uint8_t *src[STK_JOB_SOURCES]; /* address of the element for output 0 */
	const void *constants;
	void *work; /* memory for intermediate results, set by the code that runs the job */
	uint64_t constant_bytes, work_bytes;
	struct stk_job_dim dim[STK_MAX_DIMS];
	union {
		uint8_t bytes[STK_JOB_PARAMS]; /* the kind's parameters; use STK_PARAMS */
		double aligned;
	} params;
};

/* Accesses the parameters of a job as the struct of its kind, for example STK_PARAMS(stk_debayer, job).width. */
#define STK_PARAMS(type, job) (*(const struct type *)(const void *)(job)->params.bytes)
/* Like STK_PARAMS, but writable, for the function that makes a job and for stk_job_kind.close. */
#define STK_PARAMS_SET(type, job) (*(struct type *)(void *)(job)->params.bytes)
/* Fails to compile if struct `type` does not fit into a job's parameters. The header of each kind uses this. */
#define STK_PARAMS_FIT(type) typedef char type##_fits[sizeof(struct type) <= STK_JOB_PARAMS ? 1 : -1]

/* Copies a job without its unused dimensions. */
static inline void stk__job_clone(struct stk_job *to, const struct stk_job *job)
{
	memcpy(to, job, offsetof(struct stk_job, dim) + (size_t)job->ndim * sizeof *job->dim);
	memcpy(&to->params, &job->params, sizeof job->params);
}

struct stk_arena;

/* A job on the CPU that has not run yet, because only the next operator reads its results. The two jobs may then run together, without storing the results
 * in between. */
struct stk_held_job {
	struct stk_job job;
	/* Runs both jobs together without storing the held job's results, and returns true. If they cannot run together, returns false and runs neither. */
	bool (*absorb)(const struct stk_job *held, const struct stk_job *next, unsigned cpu);
	void (*run)(const struct stk_job *held);
};

/* The destination of an operator's jobs. keep: copies a job and its constants for the GPU. If keep is NULL, the function that makes a job also runs it, on the
 * CPU, with scratch memory from the arena, or stores it in `held`. */
struct stk_jobs {
	enum stk_status (*keep)(struct stk_jobs *jobs, const struct stk_job *job, struct stk_error *err);
	struct stk_arena *arena;
	unsigned cpu; /* the features of the processor that loops may use (base/cpu.h); 0: plain C */
	/* true: only the next operator reads the results, so a kind may store its job in `held` instead of running it */
	bool hold;
	struct stk_held_job *held; /* the held job, or NULL; the function that makes the next operator's job must call stk__jobs_settle */
};

#endif
