/* SPDX-License-Identifier: Apache-2.0
 * Making jobs that sample images and volumes. */
#include "kernel/array/array_sample.h"

#include "base/error.h"
#include "kernel/array/array_kernels.h"

/* Fills one of a job's dims and the distance in the source, bytes. d < 0: the tensors have no such dim. */
static void place_dim(struct stk_array_job *job, int32_t k, int32_t d, const struct stk_desc *in, const struct stk_desc *out, int64_t *src)
{
	int64_t from = stk__array_size(in->dtype), to = stk__array_size(out->dtype);
	for (int32_t i = in->ndim - 1; d >= 0 && i > d; i--) {
		from *= in->shape[i];
		to *= out->shape[i];
	}
	int64_t size = d < 0 ? 1 : out->shape[d];
	job->dim[k] = (struct stk_array_dim){size, 0, size, d < 0 ? 0 : to, {0, 0}};
	*src = d < 0 ? 0 : from;
}

enum stk_status stk__array_sample(struct stk_array_jobs *jobs, const struct stk_array_sample *s, const struct stk_sample_dims *dims,
	const float *fill, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job = {.kind = STK_ARRAY_SAMPLE,
		.ndim = 5,
		.n = stk_desc_elements(&out->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in->desc.dtype, in->desc.dtype},
		.dst = out->data,
		.src = {in->data, in->data},
		.constants = fill,
		.sample = *s};
	if (job.n == 0)
		return STK_OK;
	int64_t in_frame = stk__array_size(in->desc.dtype), out_frame = stk__array_size(out->desc.dtype), frames = 1;
	bool leads = true;
	for (int32_t d = 0; d < in->desc.ndim; d++) {
		leads = leads && d != dims->channel && d != dims->axis[0] && d != dims->axis[1] && d != dims->axis[2];
		frames *= leads ? in->desc.shape[d] : 1;
		in_frame *= leads ? 1 : in->desc.shape[d];
		out_frame *= leads ? 1 : out->desc.shape[d];
	}
	job.dim[0] = (struct stk_array_dim){frames, 0, frames, out_frame, {0, 0}};
	job.sample.frame = in_frame;
	for (int k = 0; k < 3; k++) {
		place_dim(&job, 3 - k, dims->axis[k], &in->desc, &out->desc, &job.sample.stride[k]);
		job.sample.size[k] = dims->axis[k] < 0 ? 1 : (int32_t)in->desc.shape[dims->axis[k]];
	}
	place_dim(&job, 4, dims->channel, &in->desc, &out->desc, &job.sample.channel);
	job.sample.volume = dims->axis[2] >= 0;
	job.constant_bytes = sizeof *fill * (uint64_t)job.dim[4].size;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__array_kernels(jobs, job.n)->sample(&job);
	return STK_OK;
}
