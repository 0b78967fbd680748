/* SPDX-License-Identifier: Apache-2.0
 * Decides for which jobs the GPU samples whole pixels instead of single values, and counts their tiles. A thread then computes a position once for all channels
 * of a pixel, and values that depend only on a row or a column once for several pixels. */
#ifndef STK_KERNEL_SAMPLE_PIXELS_H
#define STK_KERNEL_SAMPLE_PIXELS_H

#include "kernel/common/texels.h"
#include "kernel/sample/sample.h"

/* Returns true for images, not volumes, of interleaved uint8 or float32 with 1, 3 or 4 channels, if the output has the same type, the interpolation is not
 * cubic, and stk__texel_fits holds for source and output. */
STK_HD bool stk__job_sample_by_pixels(const struct stk_job *job)
{
	const struct stk_job_sample *s = &STK_PARAMS(stk_job_sample, job);
	const struct stk_job_dim *d = job->dim;
	int64_t element = job->src_dtype[0] == STK_UINT8 ? 1 : 4, channels = d[4].size;
	bool types = job->src_dtype[0] == job->dst_dtype && (job->dst_dtype == STK_UINT8 || job->dst_dtype == STK_FLOAT);
	bool dense = channels == 1 || (s->channel == element && d[4].dst == element);
	bool fits = stk__texel_fits(s->size[0], s->size[1], s->stride[1]) && d[3].size <= INT32_MAX && d[2].size <= INT32_MAX &&
		    stk__texel_fits((int32_t)d[3].size, (int32_t)d[2].size, d[2].dst);
	return types && dense && fits && (channels == 1 || channels == 3 || channels == 4) && !s->volume && d[1].size == 1 &&
	       s->interp != STK_INTERP_CUBIC && s->stride[0] == channels * element && d[3].dst == channels * element;
}

STK_HD bool stk__job_sample_aligned(const struct stk_job *job)
{
	return (((uint64_t)(uintptr_t)job->dst | (uint64_t)job->dim[0].dst | (uint64_t)job->dim[2].dst) & 3) == 0;
}

/* Returns the number of tiles in each frame. */
STK_HD uint32_t stk__job_sample_tiles(const struct stk_job *job)
{
	return stk__texel_across(stk__job_sample_aligned(job), (int32_t)job->dim[3].size) * stk__texel_down((int32_t)job->dim[2].size);
}

#endif
