/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs that compute spectra, and describes them for the GPU. */
#include "kernel/spectrum/spectrum.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/spectrum/spectrum_place.h"

enum stk_status stk__job_spectrum(struct stk_jobs *jobs, const struct stk_spectrum *p, const float *tables, int64_t n_frames,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job;
	stk__job_begin(&job, STK_JOB_spectrum, in, out, n_frames);
	if (job.n == 0)
		return STK_OK;
	STK_PARAMS_SET(stk_spectrum, &job) = *p;
	STK_PARAMS_SET(stk_spectrum, &job).together = stk__spectrum_together(&p->fft);
	job.constants = tables;
	job.constant_bytes = sizeof *tables * (size_t)(p->fft.floats + p->window);
	if (jobs->keep) {
		job.work_bytes = stk__spectrum_spilled(&STK_PARAMS(stk_spectrum, &job), job.n);
		return jobs->keep(jobs, &job, err);
	}
	job.work = stk__arena_take(jobs->arena, stk__spectrum_scratch(p));
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a transform of %d elements", p->fft.n);
	STK_JOB_LOOP(jobs, STK_JOB_MOST, stk__spectrum_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"spectrum_gpu", "job_spectrum", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, &it->job);
	uint32_t *shared = &b->shared[STK_LAUNCH_spectrum], needed = p->together ? (uint32_t)stk__spectrum_room(p) : 0;
	b->count[STK_LAUNCH_spectrum] += stk__spectrum_blocks(p, it->job.n);
	*shared = needed > *shared ? needed : *shared;
}

const struct stk_job_kind stk__job_kind_spectrum = {STK_JOB_LAUNCHES_OF(spectrum, launches), .blocks = blocks};
