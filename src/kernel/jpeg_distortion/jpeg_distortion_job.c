/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs of JPEG distortion, and describes them for the GPU. */
#include "kernel/jpeg_distortion/jpeg_distortion.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"
#include "kernel/jpeg_distortion/jpeg_distortion_tile.h"

enum stk_status stk__job_jpeg_distortion(struct stk_jobs *jobs, const struct stk_jpeg_distortion *j, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job = {
		.kind = STK_JOB_jpeg_distortion,
		.n = stk__jpeg_distortion_values(j, 2),
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
		.work_bytes = (uint64_t)stk__jpeg_distortion_work(j),
	};
	STK_PARAMS_SET(stk_jpeg_distortion, &job) = *j;
	if (job.n == 0)
		return STK_OK;
	if (job.work_bytes > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "JPEG distortion takes images of up to %d samples, not %llu", STK_JOB_MOST,
			(unsigned long long)job.work_bytes);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, (size_t)stk__jpeg_distortion_scratch(j));
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the planes of an image");
	STK_JOB_LOOP(jobs, job.n, stk__jpeg_distortion_run)(j, in->data, out->data, job.work);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_jpeg_distortion added, indices among all kinds' launches. */
enum { SAMPLES, PIXELS };
static const struct stk_job_launch launches[] = {
	[SAMPLES] = {"jpeg_distortion_gpu", "job_jpeg_samples", STK_JPEG_TILE_THREADS},
	[PIXELS] = {"jpeg_distortion_gpu", "job_jpeg_pixels", 0},
};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_jpeg_distortion *j = &STK_PARAMS(stk_jpeg_distortion, &it->job);
	struct stk_jpeg_tiles samples = stk__jpeg_sample_tiles(j), pixels = stk__jpeg_pixel_tiles(j);
	b->count[STK_LAUNCH_jpeg_distortion + SAMPLES] += (uint32_t)j->frames * samples.across * samples.down;
	b->count[STK_LAUNCH_jpeg_distortion + PIXELS] += (uint32_t)j->frames * pixels.across * pixels.down;
}

const struct stk_job_kind stk__job_kind_jpeg_distortion = {STK_JOB_LAUNCHES_OF(jpeg_distortion, launches), .blocks = blocks};
