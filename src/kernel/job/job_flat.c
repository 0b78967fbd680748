/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_flat.h"

#include "kernel/job/job_kind.h"
#include "kernel/job/job_place.h"

/* Sets *r to the pattern in which outputs read elements of source k. Returns false if struct stk_job_repeat cannot express the pattern. */
static bool find_repeat(const struct stk_job *job, int k, struct stk_job_repeat *r)
{
	int64_t inner = 1;
	*r = (struct stk_job_repeat){1, 1, 0};
	for (int32_t d = job->ndim - 1; d >= 0; d--) {
		int64_t size = job->dim[d].size, step = job->dim[d].src[k];
		if (step != (int32_t)step)
			return false;
		if (step && !r->step)
			*r = (struct stk_job_repeat){(uint32_t)inner, (uint32_t)size, (int32_t)step};
		else if (step && step == (int64_t)r->step * r->size && inner == (int64_t)r->inner * r->size)
			r->size *= (uint32_t)size;
		else if (step)
			return false;
		inner *= size;
	}
	return true;
}

struct stk_job_flat stk__job_flat_of(const struct stk_job *job)
{
	struct stk_job_flat f = {.pieces = 0};
	const struct stk_job_kind *kind = stk__job_kind_of(job);
	bool dense = false;
	int32_t size = kind->flat ? kind->flat(job, &dense) : 0;
	if (!size)
		return f;
	int64_t inner = 1;
	for (int32_t d = job->ndim - 1; d >= 0; d--) {
		const struct stk_job_dim *dim = &job->dim[d];
		if (dim->begin != 0 || dim->end != dim->size || dim->dst != inner * size)
			return f;
		inner *= dim->size;
	}
	if ((uintptr_t)job->dst % (uintptr_t)size || !find_repeat(job, 0, &f.of[0]) || !find_repeat(job, 1, &f.of[1]))
		return f;
	if (dense && (f.of[0].inner != 1 || f.of[0].size != job->n || f.of[0].step != size))
		return f;
	uint32_t per_piece = STK_JOB_FLAT_PIECE / (uint32_t)size;
	f.lead = (uint32_t)((uintptr_t)job->dst % STK_JOB_FLAT_PIECE) / (uint32_t)size;
	f.pieces = (uint32_t)(((uint64_t)job->n + f.lead + per_piece - 1) / per_piece);
	return f;
}
