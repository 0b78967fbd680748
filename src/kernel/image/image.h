/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs over images of bytes, all of which run in the same few launches on the GPU: lookups, equalised histograms, colours and sharpness, affine maps. If a
 * job needs properties of a whole frame (its histograms or its mean luma), one launch measures them, and the next makes the pixels. Automatic augmentation
 * makes a different kind of job for each sample of a batch; in common launches the samples run at the same time instead of kind by kind.
 *
 * A thread block works on STK_JOB_IMAGE_VALUES values of a frame, or on the largest number of pixels that have no more values. The block that finishes last
 * in a frame adds up the counts or sums of all blocks of the frame. */
#ifndef STK_KERNEL_IMAGE_H
#define STK_KERNEL_IMAGE_H

#include "kernel/enhance/enhance.h"
#include "kernel/equalize/equalize.h"
#include "kernel/job/job_kinds.h"
#include "kernel/pointwise/pointwise.h"
#include "kernel/transform/transform.h"

enum { STK_JOB_IMAGE_VALUES = 12288, STK_JOB_IMAGE_CHANNELS = 3 };

struct stk_job_image {
	int64_t frames;
	int32_t pixels, channels; /* number of pixels of a frame, and of channels of a pixel; a lookup takes each value as a pixel */
	int32_t block_pixels;     /* number of pixels that a thread block makes */
	uint32_t blocks;          /* number of thread blocks of a frame */
	/* number of words that a thread block measures: counts of each channel's values, their extremes, or a sum; 0 if nothing is measured */
	uint32_t measured;
};

/* Returns the description of a job over images of bytes. Compares kinds instead of calling a function of the kind, since kernels call this too, and device
 * code has no tables of functions. */
STK_HD struct stk_job_image stk__job_image(const struct stk_job *job)
{
	struct stk_job_image im;
	im.frames = im.channels = 1;
	im.pixels = (int32_t)job->n;
	im.measured = 0;
	if (job->kind == STK_JOB_equalize) {
		const struct stk_equalize *e = &STK_PARAMS(stk_equalize, job);
		im.frames = e->outer;
		im.pixels = e->width * e->height;
		im.channels = e->channels;
		im.measured = (e->table == STK_EQUALIZE_STRETCH ? 2 : STK_EQUALIZE_BINS) * (uint32_t)e->channels;
	} else if (job->kind == STK_JOB_enhance) {
		const struct stk_enhance *e = &STK_PARAMS(stk_enhance, job);
		im.frames = e->frames;
		im.pixels = e->width * e->height;
		im.channels = e->channels;
		im.measured = stk__enhance_measures(e) < e->n;
	} else if (job->kind == STK_JOB_transform) {
		const struct stk_transform *t = &STK_PARAMS(stk_transform, job);
		im.frames = t->frames;
		im.pixels = t->width * t->height;
		im.channels = t->channels;
	}
	im.block_pixels = STK_JOB_IMAGE_VALUES / im.channels;
	im.blocks = ((uint32_t)im.pixels + (uint32_t)im.block_pixels - 1) / (uint32_t)im.block_pixels;
	return im;
}

/* Returns the size in bytes of the results of all frames (tables or means), which are in the job's work memory before the thread blocks' measurements. */
STK_HD uint64_t stk__job_image_results(const struct stk_job *job, const struct stk_job_image *im)
{
	uint64_t each = job->kind == STK_JOB_equalize ? STK_EQUALIZE_BINS * (uint64_t)im->channels : sizeof(int32_t);
	return im->measured ? (uint64_t)im->frames * each : 0;
}

/* Returns whether a pass over the job's output (kernel/pass/pass_gpu.h) can make the job's pixels in its own thread blocks, so that they are never stored.
 * False unless the output is one image of width x height pixels of three bytes. */
bool stk__image_makes(const struct stk_job *job, int32_t width, int32_t height);

#endif
