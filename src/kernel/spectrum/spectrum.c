/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs that compute spectra, and describes them for the GPU. */
#include "kernel/spectrum/spectrum.h"

#include "kernel/bands/bands.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/spectrum/spectrum_place.h"

/* ---- jobs that run together with weighted sums ---- */

/* Returns true if `next` is a job of weighted sums over the bins of each frame that `job` makes. */
static bool sums_bins(const struct stk_job *job, const struct stk_job *next)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, job);
	const struct stk_bands *b = &STK_PARAMS(stk_bands, next);
	if (next->kind != STK_JOB_bands || b->bins != p->fft.bins || job->n != p->frames)
		return false;
	return p->dst_frame == 1 ? b->outer == 1 && b->inner == p->frames : p->dst_bin == 1 && b->outer == p->frames && b->inner == 1;
}

static bool absorb(const struct stk_job *job, const struct stk_job *next, unsigned cpu)
{
	const struct stk_jobs jobs = {.cpu = cpu};
	if (!sums_bins(job, next))
		return false;
	STK_JOB_LOOP(&jobs, STK_JOB_MOST, stk__spectrum_run_bands)(job, next);
	return true;
}

/* Stores the job in jobs->held, for the next operator, and does not run it. */
static enum stk_status hold(struct stk_jobs *jobs, const struct stk_job *job, struct stk_error *err)
{
	struct stk_held_job *held = stk__arena_take(jobs->arena, sizeof *held);
	if (!held)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a job");
	stk__job_clone(&held->job, job);
	held->absorb = absorb;
	held->run = STK_JOB_LOOP(jobs, STK_JOB_MOST, stk__spectrum_run);
	jobs->held = held;
	return STK_OK;
}

/* ---- making jobs ---- */

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
		job.work_bytes = stk__spectrum_work_bytes(&STK_PARAMS(stk_spectrum, &job), job.n);
		return jobs->keep(jobs, &job, err);
	}
	job.work = stk__arena_take(jobs->arena, stk__spectrum_scratch(p));
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a transform of %d elements", p->fft.n);
	if (jobs->hold)
		return hold(jobs, &job, err);
	STK_JOB_LOOP(jobs, STK_JOB_MOST, stk__spectrum_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches, to which STK_LAUNCH_spectrum is added for the index among the launches of all kinds. */
enum { ANY, OF_512 };
static const struct stk_job_launch launches[] = {
	[ANY] = {"spectrum_gpu", "job_spectrum", STK_SPECTRUM_THREADS},
	[OF_512] = {"spectrum_gpu_512", "job_spectrum_512", STK_SPECTRUM_THREADS_512},
};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_spectrum *p = &STK_PARAMS(stk_spectrum, &it->job);
	const int launch = STK_LAUNCH_spectrum + (stk__spectrum_is_512(&p->fft) ? OF_512 : ANY);
	uint32_t *shared = &b->shared[launch], needed = p->together ? (uint32_t)stk__spectrum_room(p) : 0;
	b->count[launch] += stk__spectrum_blocks(p, it->job.n);
	*shared = needed > *shared ? needed : *shared;
}

const struct stk_job_kind stk__job_kind_spectrum = {STK_JOB_LAUNCHES_OF(spectrum, launches), .blocks = blocks};
