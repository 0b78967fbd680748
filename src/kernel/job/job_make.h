/* SPDX-License-Identifier: Apache-2.0
 * Helpers for the functions that make jobs and, on the CPU, run them. */
#ifndef STK_KERNEL_JOB_MAKE_H
#define STK_KERNEL_JOB_MAKE_H

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "kernel/job/job_kinds.h"
#include "kernel/job/job_place.h"

/* Initialises a job of n outputs without dimensions, constants or work memory. Sets only the fields that every job needs: for a small tensor on the CPU,
 * setting fields is most of the cost of a job. */
static inline void stk__job_begin(struct stk_job *job, int kind, const struct stk_tensor *in, const struct stk_tensor *out, int64_t n)
{
	job->kind = kind;
	job->ndim = 0;
	job->n = n;
	job->dst_dtype = out->desc.dtype;
	job->src_dtype[0] = job->src_dtype[1] = in->desc.dtype;
	job->dst = out->data;
	job->src[0] = job->src[1] = in->data;
	job->constants = NULL;
	job->work = NULL;
	job->constant_bytes = job->work_bytes = 0;
}

/* Appends a dimension. Leaves out a dimension of size 1, unless its only output is fill. Merges a dimension without fill with the previous one if the two
 * are contiguous in the output and in the sources: this makes inner loops long and saves divisions. */
static inline void stk__job_append_dim(struct stk_job *job, struct stk_job_dim d)
{
	bool whole = d.begin == 0 && d.end == d.size;
	if (d.size == 1 && whole)
		return;
	struct stk_job_dim *outer = job->ndim ? &job->dim[job->ndim - 1] : NULL;
	if (outer && whole && outer->dst == d.dst * d.size && outer->src[0] == d.src[0] * d.size && outer->src[1] == d.src[1] * d.size)
		*outer =
			(struct stk_job_dim){outer->size * d.size, outer->begin * d.size, outer->end * d.size, d.dst, {d.src[0], d.src[1]}};
	else
		job->dim[job->ndim++] = d;
}

/* Runs the held job if there is one. Returns true if it ran together with `next`, which is then complete too. */
static inline bool stk__jobs_settle(struct stk_jobs *jobs, const struct stk_job *next)
{
	const struct stk_held_job *held = jobs->held;
	if (!held)
		return false;
	jobs->held = NULL;
	if (held->job.dst == next->src[0] && held->absorb(&held->job, next, jobs->cpu))
		return true;
	held->run(&held->job);
	return false;
}

/* Selects f, or f_avx2 if the processor has AVX2 and there are at least 128 outputs; with fewer, wide loops are slower. Both functions are compiled from the
 * same source and give the same bits. */
#ifdef STK_X86
#define STK_JOB_LOOP(jobs, n, f) ((n) >= 128 && ((jobs)->cpu & STK_CPU_AVX2) ? f##_avx2 : f)
#else
#define STK_JOB_LOOP(jobs, n, f) ((void)(jobs), f)
#endif

#endif
