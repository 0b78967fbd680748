/* SPDX-License-Identifier: Apache-2.0
 * Colours and sharpness as array jobs. */
#include "base/error.h"
#include "kernel/array/array_kernels.h"

enum stk_status stk__array_enhance(struct stk_array_jobs *jobs, const struct stk_enhance *e, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	bool sharpens = e->n == 1 && e->step[0].kind == STK_ENHANCE_SHARPNESS;
	struct stk_array_job job = {.kind = STK_ARRAY_ENHANCE,
		.n = e->frames * e->height * e->width * (sharpens ? e->channels : 1),
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
		.work_bytes = (uint64_t)e->frames * sizeof(int32_t),
		.enhance = *e};
	if (job.n == 0 || e->channels == 0)
		return STK_OK;
	if (job.n > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT, "an image to enhance has at most %d values, not %lld", STK_ARRAY_MOST, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__array_kernels(jobs, job.n)->enhance(e, in->data, out->data);
	return STK_OK;
}
