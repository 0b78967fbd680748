/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_kind.h"

const struct stk_job_kind *const stk__job_kinds[STK_JOB_KINDS] = {
#define KIND(kind, launches) &stk__job_kind_##kind,
	STK_JOB_KIND_LIST(KIND)
#undef KIND
};

const struct stk_job_kind *stk__job_kind_of(const struct stk_job *job)
{
	const struct stk_job_kind *own = stk__job_kinds[job->kind], *other = stk__job_kinds[own->claimed_by];
	return own->claimed_by && other->claims(job) ? other : own;
}
