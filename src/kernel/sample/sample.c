/* SPDX-License-Identifier: Apache-2.0
 * Makes jobs that sample images and volumes, and describes them for the GPU. */
#include "kernel/sample/sample.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/sample/sample_pixels.h"
#include "kernel/sample/sample_run.h"

/* Sets dimension k of a job, and *src to its stride in the source in bytes. d: the same dimension in the tensors, or negative if they lack it. */
static void place_dim(struct stk_job *job, int32_t k, int32_t d, const struct stk_desc *in, const struct stk_desc *out, int64_t *src)
{
	int64_t from = stk__job_size(in->dtype), to = stk__job_size(out->dtype);
	for (int32_t i = in->ndim - 1; d >= 0 && i > d; i--) {
		from *= in->shape[i];
		to *= out->shape[i];
	}
	int64_t size = d < 0 ? 1 : out->shape[d];
	job->dim[k] = (struct stk_job_dim){size, 0, size, d < 0 ? 0 : to, {0, 0}};
	*src = d < 0 ? 0 : from;
}

enum stk_status stk__job_sample(struct stk_jobs *jobs, const struct stk_job_sample *s, const struct stk_sample_dims *dims,
	const float *fill, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job_sample *sample;
	struct stk_job job = {
		.kind = STK_JOB_sample,
		.ndim = 5,
		.n = stk_desc_elements(&out->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in->desc.dtype, in->desc.dtype},
		.dst = out->data,
		.src = {in->data, in->data},
		.constants = fill,
	};
	sample = &STK_PARAMS_SET(stk_job_sample, &job);
	*sample = *s;
	if (job.n == 0)
		return STK_OK;
	int64_t in_frame = stk__job_size(in->desc.dtype), out_frame = stk__job_size(out->desc.dtype), frames = 1;
	bool leads = true;
	for (int32_t d = 0; d < in->desc.ndim; d++) {
		leads = leads && d != dims->channel && d != dims->axis[0] && d != dims->axis[1] && d != dims->axis[2];
		frames *= leads ? in->desc.shape[d] : 1;
		in_frame *= leads ? 1 : in->desc.shape[d];
		out_frame *= leads ? 1 : out->desc.shape[d];
	}
	job.dim[0] = (struct stk_job_dim){frames, 0, frames, out_frame, {0, 0}};
	sample->frame = in_frame;
	for (int k = 0; k < 3; k++) {
		place_dim(&job, 3 - k, dims->axis[k], &in->desc, &out->desc, &sample->stride[k]);
		sample->size[k] = dims->axis[k] < 0 ? 1 : (int32_t)in->desc.shape[dims->axis[k]];
	}
	place_dim(&job, 4, dims->channel, &in->desc, &out->desc, &sample->channel);
	sample->volume = dims->axis[2] >= 0;
	job.constant_bytes = sizeof *fill * (uint64_t)job.dim[4].size;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	STK_JOB_LOOP(jobs, job.n, stk__sample_run)(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_sample added, indices among all kinds' launches. VALUES makes values one by one, PIXELS makes whole pixels in
 * tiles. */
enum { VALUES, PIXELS };
static const struct stk_job_launch launches[] = {
	[VALUES] = {"sample_gpu", "job_sample", 0},
	[PIXELS] = {"sample_gpu_pixels", "job_sample_pixels", 0},
};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_job *job = &it->job;
	if (stk__job_sample_by_pixels(job))
		b->count[STK_LAUNCH_sample + PIXELS] += (uint32_t)job->dim[0].size * stk__job_sample_tiles(job);
	else
		b->count[STK_LAUNCH_sample + VALUES] += stk__job_blocks_of(job->n);
}

const struct stk_job_kind stk__job_kind_sample = {STK_JOB_LAUNCHES_OF(sample, launches), .blocks = blocks};
