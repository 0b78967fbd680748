/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs that equalise histograms, and describes them for the GPU. */
#include "kernel/equalize/equalize.h"

#include "kernel/equalize/equalize_element.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

enum stk_status stk__job_equalize(struct stk_jobs *jobs, const struct stk_equalize *e, const struct stk_lab_tables *lab,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job = {
		.kind = STK_JOB_equalize,
		.n = stk__equalize_outputs(e),
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
		.constants = lab,
		.constant_bytes = lab ? sizeof *lab : 0,
		.work_bytes = (uint64_t)stk__equalize_tables(e) * STK_EQUALIZE_BINS,
	};
	STK_PARAMS_SET(stk_equalize, &job) = *e;
	if (job.n == 0)
		return STK_OK;
	if (job.n > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "an image to equalise has at most %d values, not %lld", STK_JOB_MOST, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, job.work_bytes);
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the tables of an image");
	struct stk_equalize_data data = stk__job_equalize_data(&job);
	STK_JOB_LOOP(jobs, job.n, stk__equalize_run)(e, &data);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_equalize added, indices among all kinds' launches. TABLES makes the tables of all histograms, PIXELS the
 * pixels. */
enum { TABLES, PIXELS };
static const struct stk_job_launch launches[] = {
	[TABLES] = {"equalize_gpu", "job_equalize_tables", 0},
	[PIXELS] = {"equalize_gpu", "job_equalize", 0},
};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_equalize + TABLES] += (uint32_t)stk__equalize_tables(&STK_PARAMS(stk_equalize, &it->job));
	b->count[STK_LAUNCH_equalize + PIXELS] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_equalize = {STK_JOB_LAUNCHES_OF(equalize, launches), .claimed_by = STK_JOB_image, .blocks = blocks};
