/* SPDX-License-Identifier: Apache-2.0
 * Pointwise functions as array jobs. */
#include "base/error.h"
#include "kernel/array/array_element.h"
#include "kernel/array/array_kernels.h"

enum stk_status stk__array_pointwise(struct stk_array_jobs *jobs, const struct stk_pointwise *p, const void *constants, size_t bytes,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job = {.kind = STK_ARRAY_POINTWISE,
		.n = stk_desc_elements(&out->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in->desc.dtype, in->desc.dtype},
		.dst = out->data,
		.src = {in->data, NULL},
		.constants = constants,
		.constant_bytes = bytes,
		.pointwise = *p};
	if (job.n == 0)
		return STK_OK;
	if (job.n > UINT32_MAX)
		return stk__fail(err, STK_LIMIT, "a tensor has at most %u values here, not %lld", UINT32_MAX, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	struct stk_pointwise_data data = stk__array_pointwise_data(&job);
	stk__array_kernels(jobs, job.n)->pointwise(p, &data);
	return STK_OK;
}
