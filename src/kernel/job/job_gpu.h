/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a batch on the GPU (job.h): one launch for each kernel that a job takes part in, over all of them. Jobs of a batch do not read what others of it
 * write. This file knows no kind of job: it asks struct stk_job_kind (job_kind.h). Jobs whose addresses continue where the one before them ends, such as those of
 * samples that follow each other in memory, are one job on the GPU if their kind allows it.
 *
 * Usage:
 *     stk__job_gpu_create(&limits, pinned, device_tables, device_work, &batch, err);
 *     stk__job_gpu_begin(batch);
 *     for each job
 *         if (!stk__job_gpu_add(batch, job, &index)) run it on the CPU;
 *     bytes = stk__job_gpu_end(batch);
 *     upload the bytes at `pinned`; stk__job_gpu_launch(dev, &kernels, batch, stream, err);
 *     download the first 4 * stk__job_gpu_flags(batch) bytes of device_tables: number `index` of them is not 0 where that job divides whole numbers by 0,
 *     and failed */
#ifndef STK_KERNEL_JOB_GPU_H
#define STK_KERNEL_JOB_GPU_H

#include "gpu/gpu.h"
#include "kernel/job/job.h"
#include "kernel/job/job_flat.h"
#include "kernel/job/job_kinds.h"

#define STK_JOB_THREADS 256
#define STK_JOB_PIECES 1024  /* of 16 bytes, of a thread block over a flat job */
#define STK_JOB_OUTPUTS 4096 /* of a thread block: finding its job takes as long as some outputs */

struct stk_job_gpu_item {
	struct stk_job job; /* all addresses are the device's */
	struct stk_job_flat flat;
	uint32_t block0[STK_JOB_LAUNCHES]; /* thread blocks of the items before it */
};

struct stk_job_gpu_view {
	const struct stk_job_gpu_item *items;
	uint32_t *flags; /* an item each */
	uint32_t n_items;
	uint32_t each; /* thread blocks of each item, where all have as many; else 0 */
	int32_t launch;
};

/* What a batch may hold. To size one, add up what its jobs need. */
struct stk_job_gpu_limits {
	uint32_t jobs;
	uint64_t constants, work; /* bytes */
};
void stk__job_gpu_need(const struct stk_job *job, struct stk_job_gpu_limits *sum);

struct stk_job_gpu_sizes {
	size_t tables, work; /* bytes, 256-byte aligned */
};
struct stk_job_gpu_sizes stk__job_gpu_sizes(const struct stk_job_gpu_limits *limits);

struct stk_job_gpu_kernels {
	stk_gpu_kernel of[STK_JOB_LAUNCHES];
};
STK_MUST_USE enum stk_status stk__job_gpu_kernels_load(
	struct stk_gpu_device *dev, struct stk_job_gpu_kernels *kernels, struct stk_error *err);

struct stk_job_gpu;
/* tables: the host's copy, sizes.tables bytes, kept by the caller; device_tables and device_work: where it and the results will lie. */
STK_MUST_USE enum stk_status stk__job_gpu_create(const struct stk_job_gpu_limits *limits, void *tables, stk_gpu_ptr device_tables,
	stk_gpu_ptr device_work, struct stk_job_gpu **out, struct stk_error *err);
void stk__job_gpu_destroy(struct stk_job_gpu *batch);

void stk__job_gpu_begin(struct stk_job_gpu *batch);

/* Copies the job and its constants. It has at most STK_JOB_MOST outputs. False: the batch is full. *index: the number of its flag; nullable. */
bool stk__job_gpu_add(struct stk_job_gpu *batch, const struct stk_job *job, uint32_t *index);

/* Adds a job whose outputs the kernel of a pass makes (kernel/image/image.h): only what it measures is launched here. *maker: for the pass; an address of the
 * device. */
bool stk__job_gpu_add_maker(struct stk_job_gpu *batch, const struct stk_job *job, const struct stk_job_gpu_item **maker);

/* Bytes of tables to upload. */
size_t stk__job_gpu_end(struct stk_job_gpu *batch);

/* How many flags there are to look at: one a job, or none where no job can fail. */
uint32_t stk__job_gpu_flags(const struct stk_job_gpu *batch);

/* Inside stk__gpu_enter, after the upload. */
STK_MUST_USE enum stk_status stk__job_gpu_launch(struct stk_gpu_device *dev, const struct stk_job_gpu_kernels *kernels,
	const struct stk_job_gpu *batch, stk_gpu_stream stream, struct stk_error *err);

#endif
