/* SPDX-License-Identifier: Apache-2.0
 * Jobs that make one-hot vectors. */
#ifndef STK_KERNEL_ONE_HOT_H
#define STK_KERNEL_ONE_HOT_H

#include "kernel/job/job.h"

struct stk_job_one_hot {
	uint8_t on[8], off[8];   /* the values of the input's class and of the other classes, as elements of the output's type */
	uint32_t classes, inner; /* output i belongs to class i / inner % classes */
};
STK_PARAMS_FIT(stk_job_one_hot);

/* Makes a job whose output has the dimensions of `in` and one of classes, whose index is `axis`. An output is `on` if the input is the number of its class,
 * otherwise `off`. */
STK_MUST_USE enum stk_status stk__job_one_hot(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	int32_t axis, float on, float off, struct stk_error *err);

#endif
