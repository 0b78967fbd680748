/* SPDX-License-Identifier: Apache-2.0
 * Element-wise arithmetic with broadcasting. */
#ifndef STK_KERNEL_ARITHMETIC_H
#define STK_KERNEL_ARITHMETIC_H

#include "kernel/arithmetic/arithmetic_op.h"
#include "kernel/job/job.h"

/* Parameters of `op` (enum stk_arith_op) on one or two operands, computed in `domain` (enum stk_arith_domain). `meet` (enum stk_dtype) is the type to which
 * the operands are promoted; functions such as sqrt promote integers to float32. In STK_ARITH_DOUBLE, operands are first rounded to float32 unless `meet`
 * is STK_FLOAT64. In the other domains, operands keep all their bits. The result is converted to the output's type. */
struct stk_job_arithmetic {
	int32_t op, domain, meet;
	int32_t operands;
	int32_t by_value; /* 1 if the job compares signed with unsigned integers by value */
	int32_t divides;  /* 1 if the job divides integers, so that division by 0 is an error */
};
STK_PARAMS_FIT(stk_job_arithmetic);

/* Makes an arithmetic job. in: the operands, which are broadcast to out. STK_INVALID: the job ran on the CPU and had to divide an integer by 0; out is
 * incomplete. (On the GPU, the job's flag is set instead.) */
STK_MUST_USE enum stk_status stk__job_arithmetic(struct stk_jobs *jobs, const struct stk_job_arithmetic *a, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);

/* The message about a job that divides integers by zero, on the CPU or on the GPU. */
#define STK_DIVIDED_BY_ZERO "integer division by zero; cast to float to get infinities instead"

#endif
