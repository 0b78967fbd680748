/* SPDX-License-Identifier: Apache-2.0
 * Filters as array jobs: making them, and running them on the CPU. */
#include "kernel/array/array_element.h"
#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_run.h"

#include "base/error.h"
#include "base/memory.h"

enum stk_status stk__array_filter(struct stk_array_jobs *jobs, const struct stk_filter *f, const float *weights, int32_t n_weights,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	bool from_input = f->dense && f->reduction == STK_FILTER_SUM && !weights;
	struct stk_array_job job = {.kind = STK_ARRAY_FILTER,
		.n = stk_desc_elements(&out->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in[0].desc.dtype, STK_FLOAT},
		.dst = out->data,
		.src = {in[0].data, from_input ? in[1].data : NULL},
		.constants = weights,
		.constant_bytes = (uint64_t)n_weights * sizeof *weights,
		.filter = *f};
	if (job.n == 0)
		return STK_OK;
	if (!jobs->keep) {
		struct stk_filter_data data = stk__array_filter_data(&job);
		return stk__filter_run(f, &data, jobs->filters ? jobs->filters : &stk__filter_kernels_c, jobs->arena, err);
	}
	if (job.n * f->n_terms > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT,
			"the GPU filters tensors of up to %d values, not of %lld; place this operator on the cores",
			STK_ARRAY_MOST / f->n_terms, (long long)job.n);
	job.work_bytes = stk__filter_work(f);
	return jobs->keep(jobs, &job, err);
}
