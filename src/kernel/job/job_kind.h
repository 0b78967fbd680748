/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between a kind of job and the code that runs jobs of all kinds on the GPU (job_gpu.c): the kind's launches, and the memory and thread blocks
 * that its jobs need. All functions but `blocks` may be NULL. The kind's jobs are then not flat, do not join, do not fail and need no completion, and the kind
 * claims no jobs of other kinds. A kind is defined in its folder, next to the function that makes its jobs:
 *
 *     static const struct stk_job_launch launches[] = {{"debayer_gpu", "job_debayer", 0}};
 *     static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
 *     {
 *             b->count[STK_LAUNCH_debayer] += stk__job_blocks_of(it->job.n);
 *     }
 *     const struct stk_job_kind stk__job_kind_debayer = {STK_JOB_LAUNCHES_OF(debayer, launches), .blocks = blocks}; */
#ifndef STK_KERNEL_JOB_KIND_H
#define STK_KERNEL_JOB_KIND_H

#include "kernel/job/job_gpu.h"

/* A kernel that is launched once for all jobs of a batch that need it. */
struct stk_job_launch {
	const char *module, *kernel; /* module: name of the .cu file without the suffix; kernel: name of the function */
	int32_t threads;             /* number of threads in a thread block; 0: STK_JOB_THREADS */
};

/* The size of each launch, indexed by STK_LAUNCH_...: number of thread blocks, and bytes of shared memory per block. */
struct stk_job_blocks {
	uint32_t count[STK_JOB_LAUNCHES], shared[STK_JOB_LAUNCHES];
};

struct stk_job_kind {
	const struct stk_job_launch *launches;
	int32_t n_launches;
	/* Returns true if this kind runs a job of another kind in its own launches. The functions below are then called on this kind, not on the job's own
	 * kind. */
	bool (*claims)(const struct stk_job *job);
	int32_t claimed_by; /* index of the kind that may claim jobs of this kind; 0: no kind */
	/* Computes how many bytes of constants and of work memory a job needs on the device. NULL: the sizes in the job apply. Constants that the job does not
	 * supply are set to 0. */
	void (*memory)(const struct stk_job *job, uint64_t *constants, uint64_t *work);
	/* Writes the job's constants. The job's addresses are already device addresses. given: the job's constants on the host; to: the memory that will be
	 * uploaded. NULL: the constants are copied. */
	void (*write_constants)(struct stk_job *job, const void *given, uint8_t *to);
	/* Returns the size in bytes of an element of the output if the job may be flat (job_flat.h), otherwise 0. Sets *dense to true if output i must also
	 * read element i for the job to be flat. */
	int32_t (*flat)(const struct stk_job *job, bool *dense);
	/* Returns whether two jobs may run as one job with an additional outer dimension. The caller has checked that they have the same kind, types and
	 * dimensions, so this only compares parameters. `next` may be `job` itself. */
	bool (*joins)(const struct stk_job *job, const struct stk_job *next);
	/* Completes the parameters of a job after other jobs have joined it: `job` then stands for all of them. */
	void (*close)(struct stk_job *job);
	/* Returns whether the job may fail on the GPU, where it then sets its flag. */
	bool (*may_fail)(const struct stk_job *job);
	/* Adds the job's thread blocks to the launches that it needs, which belong to its own kind or to kinds earlier in the list. */
	void (*blocks)(const struct stk_job_gpu_item *it, struct stk_job_blocks *b);
	/* Adds only the thread blocks that measure the input of a job whose outputs the kernel of a pass makes. NULL: passes cannot make outputs of this
	 * kind. */
	void (*measures)(const struct stk_job_gpu_item *it, struct stk_job_blocks *b);
};

#define STK_JOB_KIND_DECLARE(kind, launches) extern const struct stk_job_kind stk__job_kind_##kind;
STK_JOB_KIND_LIST(STK_JOB_KIND_DECLARE)
#undef STK_JOB_KIND_DECLARE

extern const struct stk_job_kind *const stk__job_kinds[STK_JOB_KINDS];

/* Returns the kind that runs a job: its own, unless another kind claims it. */
const struct stk_job_kind *stk__job_kind_of(const struct stk_job *job);

/* Initialises the first members of a kind. Does not compile if job_kinds.h states a different number of launches. */
#define STK_JOB_LAUNCHES_OF(kind, list)                                                                                                    \
	.launches = list,                                                                                                                  \
	.n_launches = sizeof(list) / sizeof *list +                                                                                        \
		      0 * sizeof(char[sizeof(list) / sizeof *list == STK_LAUNCH_LAST_##kind - STK_LAUNCH_##kind + 1 ? 1 : -1])

/* Returns the number of thread blocks for this number of outputs, if each block makes STK_JOB_OUTPUTS outputs. */
static inline uint32_t stk__job_blocks_of(int64_t outputs)
{
	return (uint32_t)((outputs + STK_JOB_OUTPUTS - 1) / STK_JOB_OUTPUTS);
}

static inline uint32_t stk__job_piece_blocks(const struct stk_job_gpu_item *it)
{
	return (it->flat.pieces + STK_JOB_PIECES - 1) / STK_JOB_PIECES;
}

#endif
