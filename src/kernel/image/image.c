/* SPDX-License-Identifier: Apache-2.0
 * The kind of job that claims jobs over images of bytes from other kinds, and runs them on the GPU in its own launches. */
#include "kernel/image/image.h"

#include "kernel/job/job_kind.h"

#include <stdlib.h>

/* Indices of the kind's launches; with STK_LAUNCH_image added, indices among all kinds' launches. MEASURE measures frames, PIXELS makes pixels, and MIX makes
 * the pixels of jobs for which mixes() is true. */
enum { MEASURE, PIXELS, MIX };
static const struct stk_job_launch launches[] = {
	[MEASURE] = {"image_gpu", "job_image_measure", 0},
	[PIXELS] = {"image_gpu", "job_image", 0},
	[MIX] = {"image_gpu", "job_image_mix", 0},
};

static bool is_image(const struct stk_job *job)
{
	switch (job->kind) {
	case STK_JOB_pointwise:
		return STK_PARAMS(stk_pointwise, job).op == STK_POINTWISE_LOOKUP && job->src_dtype[0] == STK_UINT8 &&
		       job->dst_dtype == STK_UINT8 && STK_PARAMS(stk_pointwise, job).lookup.entries == 256;
	case STK_JOB_equalize:
		if (STK_PARAMS(stk_equalize, job).tiles_x || STK_PARAMS(stk_equalize, job).lightness)
			return false;
		break;
	case STK_JOB_enhance:
	case STK_JOB_transform:
		break;
	default:
		return false;
	}
	const int32_t channels = stk__job_image(job).channels;
	return channels == 1 || channels == STK_JOB_IMAGE_CHANNELS;
}

/* Returns true if the transform reads the nearest pixel for each output and all its positions fit into 32 bits. */
static bool reads_nearest(const struct stk_transform *t)
{
	const int32_t most = INT32_MAX >> STK_TRANSFORM_NN_BITS;
	bool fits = t->interp == STK_INTERP_NN && t->width <= most && t->height <= most;
	for (int row = 0; row < 6; row += 3)
		fits = fits && llabs(t->m[row]) * t->width + llabs(t->m[row + 1]) * t->height + llabs(t->m[row + 2]) <= INT32_MAX;
	return fits;
}

/* Returns whether the job needs so many registers that it has a launch of its own: a transform that reads more than the nearest pixel or is too large for
 * 32 bits, or an enhancement that changes the hue or does not have exactly one step. */
static bool mixes(const struct stk_job *job)
{
	return (job->kind == STK_JOB_transform && !reads_nearest(&STK_PARAMS(stk_transform, job))) ||
	       (job->kind == STK_JOB_enhance &&
		       (STK_PARAMS(stk_enhance, job).n != 1 || STK_PARAMS(stk_enhance, job).step[0].kind == STK_ENHANCE_HUE));
}

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
	b->count[STK_LAUNCH_image + (mixes(&it->job) ? MIX : PIXELS)] += (uint32_t)im.frames * im.blocks;
}

const struct stk_job_kind stk__job_kind_image = {
	STK_JOB_LAUNCHES_OF(image, launches), .claims = is_image, .memory = memory, .blocks = blocks, .measures = measures};

bool stk__image_makes(const struct stk_job *job, int32_t width, int32_t height)
{
	if (!is_image(job) || mixes(job))
		return false;
	struct stk_job_image im = stk__job_image(job);
	return im.frames == 1 && (int64_t)im.pixels * im.channels == 3 * (int64_t)width * height &&
	       (im.channels == 3 || job->kind == STK_JOB_pointwise);
}
