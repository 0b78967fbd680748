/* SPDX-License-Identifier: Apache-2.0
 * JPEG distortion as array jobs. */
#include "base/error.h"
#include "base/memory.h"
#include "kernel/array/array_kernels.h"
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"

enum stk_status stk__array_jpeg_distortion(struct stk_array_jobs *jobs, const struct stk_jpeg_distortion *j, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job = {.kind = STK_ARRAY_JPEG_DISTORTION,
		.n = stk__jpeg_distortion_values(j, 2),
		.dst_dtype = STK_UINT8,
		.src_dtype = {STK_UINT8, STK_UINT8},
		.dst = out->data,
		.src = {in->data, NULL},
		.work_bytes = (uint64_t)stk__jpeg_distortion_work(j),
		.jpeg_distortion = *j};
	if (job.n == 0)
		return STK_OK;
	if (job.work_bytes > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT, "an image has at most %d samples here, not %llu", STK_ARRAY_MOST,
			(unsigned long long)job.work_bytes);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, (size_t)stk__jpeg_distortion_scratch(j));
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the planes of an image");
	stk__array_kernels(jobs, job.n)->jpeg_distortion(j, in->data, out->data, job.work);
	return STK_OK;
}
