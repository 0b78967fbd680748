/* SPDX-License-Identifier: Apache-2.0
 * Makes one output of a one-hot job, in C and CUDA. */
#ifndef STK_KERNEL_ONE_HOT_ONE_H
#define STK_KERNEL_ONE_HOT_ONE_H

#include "kernel/job/job_place.h"
#include "kernel/one_hot/one_hot.h"

STK_HD void stk__job_one_hot_one(const struct stk_job *job, const struct stk_job_place *p, uint32_t i)
{
	const struct stk_job_one_hot *h = &STK_PARAMS(stk_job_one_hot, job);
	double value;
	stk__convert_one(&value, STK_FLOAT64, p->src[0], job->src_dtype[0]);
	value = trunc(value);
	bool on = value == (double)(i / h->inner % h->classes);
	stk__job_move(p->dst, on ? h->on : h->off, stk__job_size(job->dst_dtype));
}

#endif
