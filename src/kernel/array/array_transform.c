/* SPDX-License-Identifier: Apache-2.0
 * Affine maps of images of bytes as array jobs. */
#include "base/error.h"
#include "kernel/array/array_kernels.h"

enum stk_status stk__array_transform(struct stk_array_jobs *jobs, const struct stk_transform *t, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job = {.kind = STK_ARRAY_TRANSFORM,
		.n = t->frames * t->height * t->width,
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
		.transform = *t};
	if (job.n == 0 || t->channels == 0)
		return STK_OK;
	if (job.n > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT, "an image to move has at most %d pixels, not %lld", STK_ARRAY_MOST, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__array_kernels(jobs, job.n)->transform(t, in->data, out->data);
	return STK_OK;
}
