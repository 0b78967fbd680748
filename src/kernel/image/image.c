/* SPDX-License-Identifier: Apache-2.0
 * The kind of job that runs jobs over images of bytes on the GPU, which it claims from other kinds. */
#include "kernel/image/image.h"

#include "kernel/job/job_kind.h"

/* The kind's launches; X has the number STK_LAUNCH_image + X among the launches of all kinds. MEASURE measures frames, PIXELS makes pixels, and MIX makes
 * the pixels of jobs for which stk__job_image_mixes is true. */
enum { MEASURE, PIXELS, MIX };
static const struct stk_job_launch launches[] = {
	[MEASURE] = {"image_gpu", "job_image_measure", 0},
	[PIXELS] = {"image_gpu", "job_image", 0},
	[MIX] = {"image_gpu", "job_image_mix", 0},
};

/* Computes the sizes of the memory of a job that measures frames. The constants have a word for each measured frame, in which its finished thread blocks are
 * counted. The work memory has the results of all frames, then the measurements of all thread blocks. */
static void memory(const struct stk_job *job, uint64_t *constants, uint64_t *work)
{
	struct stk_job_image im = stk__job_image(job);
	if (im.measured) {
		*constants = (uint64_t)im.frames * sizeof(uint32_t);
		*work = stk__job_image_results(job, &im) + (uint64_t)im.frames * im.blocks * im.measured * sizeof(uint32_t);
	}
}

static void measures(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	struct stk_job_image im = stk__job_image(&it->job);
	b->count[STK_LAUNCH_image + MEASURE] += im.measured ? (uint32_t)im.frames * im.blocks : 0;
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	struct stk_job_image im = stk__job_image(&it->job);
	measures(it, b);
	b->count[STK_LAUNCH_image + (stk__job_image_mixes(&it->job) ? MIX : PIXELS)] += (uint32_t)im.frames * im.blocks;
}

const struct stk_job_kind stk__job_kind_image = {
	STK_JOB_LAUNCHES_OF(image, launches), .claims = stk__job_is_image, .memory = memory, .blocks = blocks, .measures = measures};

bool stk__image_makes(const struct stk_job *job, int32_t width, int32_t height)
{
	if (!stk__job_is_image(job) || stk__job_image_mixes(job))
		return false;
	struct stk_job_image im = stk__job_image(job);
	return im.frames == 1 && (int64_t)im.pixels * im.channels == 3 * (int64_t)width * height &&
	       (im.channels == 3 || job->kind == STK_JOB_pointwise);
}
