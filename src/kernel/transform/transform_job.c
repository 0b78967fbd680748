/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs for affine maps of images of bytes, and describes them for the GPU. */
#include "kernel/transform/transform.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

#include <math.h>

enum { ROOM = 62 }; /* positions and extents in fixed point are at most 2^ROOM, so that the sum of two of them does not overflow int64 */

static bool positions_fit(const struct stk_transform *t)
{
	const double most = ldexp(1, ROOM), one = ldexp(1, stk__transform_bits(t));
	bool fit = t->width * one <= most && t->height * one <= most;
	for (int row = 0; row < 6; row += 3)
		fit = fit &&
		      fabs((double)t->m[row]) * t->width + fabs((double)t->m[row + 1]) * t->height + fabs((double)t->m[row + 2]) <= most;
	return fit;
}

enum stk_status stk__job_transform(struct stk_jobs *jobs, const struct stk_transform *t, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job = {
		.kind = STK_JOB_transform,
		.n = t->frames * t->height * t->width,
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
	};
	STK_PARAMS_SET(stk_transform, &job) = *t;
	if (job.n == 0 || t->channels == 0)
		return STK_OK;
	if (job.n > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "an image to transform has at most %d pixels, not %lld", STK_JOB_MOST, (long long)job.n);
	if (!positions_fit(t))
		return stk__fail(err, STK_LIMIT,
			"an image of %d x %d cannot be moved this far: its positions would leave the range of +-2^%d pixels", t->width,
			t->height, ROOM - stk__transform_bits(t));
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	STK_JOB_LOOP(jobs, job.n, stk__transform_run)(t, in->data, out->data);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {{"transform_gpu", "job_transform", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	b->count[STK_LAUNCH_transform] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_transform = {
	STK_JOB_LAUNCHES_OF(transform, launches), .claimed_by = STK_JOB_image, .blocks = blocks};
