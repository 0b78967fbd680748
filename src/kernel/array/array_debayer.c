/* SPDX-License-Identifier: Apache-2.0
 * Demosaicing as array jobs. */
#include "base/error.h"
#include "kernel/array/array_kernels.h"

enum stk_status stk__array_debayer(struct stk_array_jobs *jobs, const struct stk_debayer *b, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job = {.kind = STK_ARRAY_DEBAYER,
		.n = stk_desc_elements(&in->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in->desc.dtype, in->desc.dtype},
		.dst = out->data,
		.src = {in->data, NULL},
		.debayer = *b};
	if (job.n == 0)
		return STK_OK;
	if (job.n > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT, "an image to demosaic has at most %d pixels, not %lld", STK_ARRAY_MOST, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__array_kernels(jobs, job.n)->debayer(b, in->data, out->data, job.n);
	return STK_OK;
}
