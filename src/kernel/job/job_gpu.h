/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the jobs of a batch on the GPU (job.h): each kernel is launched once for all jobs that need it. A job must not read the result of another job of the
 * batch. This code is independent of the kinds of jobs: it calls the functions of struct stk_job_kind (job_kind.h). Jobs whose addresses continue where the
 * previous job ends, such as those of samples that are adjacent in memory, become one job on the GPU if their kind allows it.
 *
 * Usage:
 *     stk__job_gpu_create(&limits, pinned, device_tables, device_work, &batch, err);
 *     stk__job_gpu_begin(batch);
 *     for each job
 *         if (!stk__job_gpu_add(batch, job, &index)) run it on the CPU;
 *     bytes = stk__job_gpu_end(batch);
 *     upload the bytes at `pinned`; stk__job_gpu_launch(dev, &kernels, batch, stream, err);
 * download the first 4 * stk__job_gpu_flags(batch) bytes of device_tables: flag number `index` is not 0 if the job failed, because it divided integers by 0 */
#ifndef STK_KERNEL_JOB_GPU_H
#define STK_KERNEL_JOB_GPU_H

#include "gpu/gpu.h"
#include "kernel/job/job.h"
#include "kernel/job/job_flat.h"
#include "kernel/job/job_kinds.h"

#define STK_JOB_THREADS 256
#define STK_JOB_PIECES 1024  /* number of 16-byte pieces of a flat job's output that a thread block makes */
#define STK_JOB_OUTPUTS 4096 /* outputs per thread block; so many that finding the job takes little of its time */

struct stk_job_gpu_item {
	struct stk_job job; /* all addresses are the device's */
	struct stk_job_flat flat;
	uint32_t block0[STK_JOB_LAUNCHES]; /* for each launch: number of thread blocks of all items before this one */
};

struct stk_job_gpu_view {
	const struct stk_job_gpu_item *items;
	uint32_t *flags; /* one flag for each item */
	uint32_t n_items;
	uint32_t each;  /* number of thread blocks of each item in this launch if all items have the same, otherwise 0 */
	int32_t launch; /* number of this launch: STK_LAUNCH_... */
};

/* The capacity of a batch. To size a batch, add up what its jobs need with stk__job_gpu_need. */
struct stk_job_gpu_limits {
	uint32_t jobs;
	uint64_t constants, work; /* total sizes in bytes of the jobs' constants and of their work memory */
};
void stk__job_gpu_need(const struct stk_job *job, struct stk_job_gpu_limits *sum);

struct stk_job_gpu_sizes {
	size_t tables, work; /* sizes in bytes, multiples of 256 */
};
struct stk_job_gpu_sizes stk__job_gpu_sizes(const struct stk_job_gpu_limits *limits);

struct stk_job_gpu_kernels {
	stk_gpu_kernel of[STK_JOB_LAUNCHES];
};
STK_MUST_USE enum stk_status stk__job_gpu_kernels_load(
	struct stk_gpu_device *dev, struct stk_job_gpu_kernels *kernels, struct stk_error *err);

struct stk_job_gpu;
/* Creates a batch. tables: host memory of sizes.tables bytes in which the batch prepares its tables; the caller owns it, and it must outlive the batch.
 * device_tables and device_work: device memory of sizes.tables and sizes.work bytes, for the tables and for intermediate results. */
STK_MUST_USE enum stk_status stk__job_gpu_create(const struct stk_job_gpu_limits *limits, void *tables, stk_gpu_ptr device_tables,
	stk_gpu_ptr device_work, struct stk_job_gpu **out, struct stk_error *err);
void stk__job_gpu_destroy(struct stk_job_gpu *batch);

void stk__job_gpu_begin(struct stk_job_gpu *batch);

/* Adds a copy of the job and its constants. The job must have at most STK_JOB_MOST outputs. Returns false if the batch is full. Sets *index, unless index is
 * NULL, to the index of the job's flag. */
bool stk__job_gpu_add(struct stk_job_gpu *batch, const struct stk_job *job, uint32_t *index);

/* Adds a job whose outputs are made by the kernel of a pass, not by this batch (kernel/image/image.h). The batch only measures the job's input, for example
 * its histograms. Returns false if the batch is full. Sets *maker to the device address of the job's item, for the pass. */
bool stk__job_gpu_add_maker(struct stk_job_gpu *batch, const struct stk_job *job, const struct stk_job_gpu_item **maker);

/* Ends the batch. Returns the number of bytes of tables to upload. */
size_t stk__job_gpu_end(struct stk_job_gpu *batch);

/* Returns the number of flags to check: one for each item (an item may stand for several jobs), or 0 if no job can fail. */
uint32_t stk__job_gpu_flags(const struct stk_job_gpu *batch);

/* Launches the batch. Call inside stk__gpu_enter, after the upload. */
STK_MUST_USE enum stk_status stk__job_gpu_launch(struct stk_gpu_device *dev, const struct stk_job_gpu_kernels *kernels,
	const struct stk_job_gpu *batch, stk_gpu_stream stream, struct stk_error *err);

#endif
