/* SPDX-License-Identifier: Apache-2.0
 * Equalised histograms as array jobs. */
#include "base/error.h"
#include "base/memory.h"
#include "kernel/array/array_element.h"
#include "kernel/array/array_kernels.h"
#include "kernel/equalize/equalize_element.h"

enum stk_status stk__array_equalize(struct stk_array_jobs *jobs, const struct stk_equalize *e, const struct stk_lab_tables *lab,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job = {.kind = STK_ARRAY_EQUALIZE,
		.n = stk__equalize_outputs(e),
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
		.constants = lab,
		.constant_bytes = lab ? sizeof *lab : 0,
		.work_bytes = (uint64_t)stk__equalize_tables(e) * STK_EQUALIZE_BINS,
		.equalize = *e};
	if (job.n == 0)
		return STK_OK;
	if (job.n > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT, "an image to equalise has at most %d values, not %lld", STK_ARRAY_MOST, (long long)job.n);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, job.work_bytes);
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the tables of an image");
	struct stk_equalize_data data = stk__array_equalize_data(&job);
	stk__array_kernels(jobs, job.n)->equalize(e, &data);
	return STK_OK;
}
