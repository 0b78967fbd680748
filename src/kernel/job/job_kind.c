/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_kind.h"

const struct stk_job_kind *const stk__job_kinds[STK_JOB_KINDS] = {
#define KIND(kind, launches) &stk__job_kind_##kind,
	STK_JOB_KIND_LIST(KIND)
#undef KIND
};

const struct stk_job_kind *stk__job_kind_of(const struct stk_job *job)
{
	for (int k = 0; stk__job_kinds[job->kind]->claimable && k < STK_JOB_KINDS; k++)
		if (stk__job_kinds[k]->claims && stk__job_kinds[k]->claims(job))
			return stk__job_kinds[k];
	return stk__job_kinds[job->kind];
}
