/* SPDX-License-Identifier: Apache-2.0
 * Making and running jobs that sample images and volumes. */
#include "kernel/array/array_sample.h"

#include "base/error.h"
#include "kernel/array/array_run.h"

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
	stk__array_run_sample(&job);
	return STK_OK;
}

/* ---- on the CPU ---- */

/* The usual case, all of whose pixels are bytes inside: the same sums as stk__sample_float's. */
static inline bool sample_bytes(const struct stk_array_job *job, uint8_t *dst, const uint8_t *base, const struct stk_sample_position *p)
{
	const struct stk_array_sample *s = &job->sample;
	bool linear = s->interp != STK_INTERP_NN;
	float half = linear ? 0.5f : 0, x = p->at[0] - half, y = p->at[1] - half;
	int32_t ix = stk__sample_floor(x), iy = stk__sample_floor(y), more = linear;
	if (ix < 0 || iy < 0 || ix + more >= s->size[0] || iy + more >= s->size[1])
		return false;
	base += ix * s->stride[0] + iy * s->stride[1];
	float qx = x - (float)ix, qy = y - (float)iy, px = 1 - qx;
	int64_t right = s->stride[0], below = s->stride[1];
	for (int64_t c = 0; c < job->dim[4].size; c++, base += s->channel, dst += job->dim[4].dst) {
		if (!linear) {
			*dst = *base;
			continue;
		}
		float top = (float)base[0] * px + (float)base[right] * qx,
		      bottom = (float)base[below] * px + (float)base[below + right] * qx;
		float value = top + (bottom - top) * qy, whole = (float)(int32_t)value;
		*dst = (uint8_t)(int32_t)(value - whole >= 0.5f ? whole + 1 : whole);
	}
	return true;
}

void stk__array_run_sample(const struct stk_array_job *job)
{
	const struct stk_array_dim *d = job->dim;
	bool bytes = job->src_dtype[0] == STK_UINT8 && job->dst_dtype == STK_UINT8 && !job->sample.volume &&
		     job->sample.interp != STK_INTERP_CUBIC;
	for (int64_t f = 0; f < d[0].size; f++) {
		const uint8_t *base = job->src[0] + f * job->sample.frame;
		uint64_t pixel = 0;
		for (int64_t z = 0; z < d[1].size; z++)
			for (int64_t y = 0; y < d[2].size; y++) {
				uint8_t *row = job->dst + f * d[0].dst + z * d[1].dst + y * d[2].dst;
				for (int64_t x = 0; x < d[3].size; x++, row += d[3].dst, pixel++) {
					struct stk_sample_position p =
						stk__sample_position(&job->sample, (int32_t)x, (int32_t)y, (int32_t)z, f, pixel);
					if (bytes && sample_bytes(job, row, base, &p))
						continue;
					for (int64_t c = 0; c < d[4].size; c++)
						stk__array_sample_store(job, row + c * d[4].dst, base, &p, (int32_t)c);
				}
			}
	}
}
