/* SPDX-License-Identifier: Apache-2.0
 * Jobs that find the part of a signal that is not silent: the code that makes them, runs them on the CPU, and describes them for the GPU. */
#include "kernel/nonsilent/nonsilent.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

/* ---- on the CPU ---- */

static struct stk_nonsilent_chunk search(const struct stk_job *job, int64_t chunk, double limit)
{
	switch (job->src_dtype[0]) {
	case STK_FLOAT:
		return stk__nonsilent_search(job, STK_FLOAT, chunk, limit);
	case STK_INT16:
		return stk__nonsilent_search(job, STK_INT16, chunk, limit);
	default:
		return stk__nonsilent_search(job, job->src_dtype[0], chunk, limit);
	}
}

static void run(const struct stk_job *job)
{
	double *largest = job->work, most = 0;
	int64_t chunks = stk__nonsilent_chunks(job), first = 0, last = chunks - 1;
	for (int64_t c = 0; c < chunks; c++) {
		largest[c] = search(job, c, 0).largest;
		most = largest[c] > most ? largest[c] : most;
	}
	double limit = stk__nonsilent_limit(job, most);
	while (first < chunks && largest[first] < limit)
		first++;
	while (last > first && largest[last] < limit)
		last--;
	if (first == chunks) {
		stk__nonsilent_store(job, -1, -1);
		return;
	}
	int64_t begin = search(job, first, limit).first;
	stk__nonsilent_store(job, begin, search(job, last, limit).last);
}

/* ---- making jobs ---- */

enum stk_status stk__job_nonsilent(struct stk_jobs *jobs, const struct stk_nonsilent *p, const struct stk_tensor *in,
	const struct stk_tensor *begin, struct stk_error *err)
{
	struct stk_job job;
	stk__job_begin(&job, STK_JOB_nonsilent, in, begin, stk_desc_elements(&in->desc));
	STK_PARAMS_SET(stk_nonsilent, &job) = *p;
	job.work_bytes = sizeof(double) * (size_t)stk__nonsilent_chunks(&job);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, job.work_bytes);
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the powers of a signal");
	run(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_nonsilent added, indices among all kinds' launches. */
enum { CHUNKS, STRETCH };
static const struct stk_job_launch launches[] = {
	[CHUNKS] = {"nonsilent_gpu", "job_nonsilent_chunks", 0},
	[STRETCH] = {"nonsilent_gpu", "job_nonsilent", 0},
};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_nonsilent + CHUNKS] += (uint32_t)((stk__nonsilent_chunks(&it->job) + STK_JOB_THREADS - 1) / STK_JOB_THREADS);
	b->count[STK_LAUNCH_nonsilent + STRETCH]++;
}

const struct stk_job_kind stk__job_kind_nonsilent = {STK_JOB_LAUNCHES_OF(nonsilent, launches), .blocks = blocks};
