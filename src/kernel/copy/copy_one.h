/* SPDX-License-Identifier: Apache-2.0
 * Makes one output of a copy, in C and CUDA. */
#ifndef STK_KERNEL_COPY_ONE_H
#define STK_KERNEL_COPY_ONE_H

#include "kernel/copy/copy.h"
#include "kernel/job/job_place.h"

STK_HD void stk__job_copy_one(const struct stk_job *job, const struct stk_job_place *p)
{
	int32_t element = STK_PARAMS(stk_job_copy, job).element;
	if (!p->inside)
		stk__job_move(p->dst, STK_PARAMS(stk_job_copy, job).fill, element ? element : stk__job_size(job->dst_dtype));
	else if (element)
		stk__job_move(p->dst, p->src[0], element);
	else
		stk__convert_one(p->dst, job->dst_dtype, p->src[0], job->src_dtype[0]);
}

#endif
