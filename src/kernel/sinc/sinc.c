/* SPDX-License-Identifier: Apache-2.0
 * Computes tables of windowed sincs, makes jobs that resample signals, and describes them for the GPU. */
#include "kernel/sinc/sinc.h"

#include "base/math.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

/* Returns the weight of a filter with a cutoff of 1. */
static double weight_at(double distance, int32_t lobes)
{
	const double pi = 3.14159265358979323846;
	double width = (double)lobes + 1.0 / 64, whole = floor(distance + 0.5), part = distance - whole;
	if (fabs(distance) >= width)
		return 0;
	double sine = (int64_t)whole % 2 ? -stk__sin(pi * part) : stk__sin(pi * part); /* 0 if the distance is a whole number */
	double sinc = distance == 0 ? 1 : sine / (pi * distance);
	return sinc * 0.5 * (1 + stk__cos(pi * distance / width));
}

void stk__sinc_table(struct stk_sinc_filter f, int64_t phases, float *table)
{
	const int32_t reach = stk__sinc_reach(f), taps = stk__sinc_taps(reach);
	for (int64_t row = 0; row < stk__sinc_rows(phases); row++) {
		double phase = (double)row / (double)(phases > 0 ? phases : STK_SINC_STEPS);
		for (int32_t k = 0; k < taps; k++)
			*table++ = k < 2 * reach ? (float)(f.cutoff * weight_at((k + 1 - reach - phase) * f.cutoff, f.lobes)) : 0;
	}
}

enum stk_status stk__job_sinc(struct stk_jobs *jobs, const struct stk_sinc *p, const float *table, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job;
	stk__job_begin(&job, STK_JOB_sinc, in, out, p->out * p->channels);
	if (job.n == 0)
		return STK_OK;
	STK_PARAMS_SET(stk_sinc, &job) = *p;
	job.constants = table;
	job.constant_bytes = sizeof *table * (size_t)stk__sinc_rows(p->phases) * (size_t)p->taps;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, sizeof(float) * (size_t)(p->in * p->channels));
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a signal of %lld samples", (long long)p->in);
	STK_JOB_LOOP(jobs, STK_JOB_MOST, stk__sinc_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"sinc_gpu", "job_sinc", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_sinc] += (uint32_t)((it->job.n + STK_JOB_THREADS - 1) / STK_JOB_THREADS);
}

const struct stk_job_kind stk__job_kind_sinc = {STK_JOB_LAUNCHES_OF(sinc, launches), .blocks = blocks};
