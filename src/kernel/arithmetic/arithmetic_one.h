/* SPDX-License-Identifier: Apache-2.0
 * Computes one output of an arithmetic job, in C and CUDA. */
#ifndef STK_KERNEL_ARITHMETIC_ONE_H
#define STK_KERNEL_ARITHMETIC_ONE_H

#include "kernel/arithmetic/arithmetic.h"
#include "kernel/job/job_place.h"

union stk_job_value {
	int64_t i;
	uint64_t u;
	double f;
};

/* Returns the operand of type dtype at `src` in the form that the job's domain requires: an integer, or a double that is rounded to float32 unless `meet`
 * is float64. */
STK_HD union stk_job_value stk__job_load(const struct stk_job *job, const uint8_t *src, int dtype)
{
	const struct stk_job_arithmetic *a = &STK_PARAMS(stk_job_arithmetic, job);
	union stk_job_value value;
	if (a->domain != STK_ARITH_DOUBLE) { /* keeps all bits; the usual conversion would saturate */
		stk__convert_one(&value, dtype == STK_UINT64 ? STK_UINT64 : STK_INT64, src, dtype);
	} else {
		stk__convert_one(&value, STK_FLOAT64, src, dtype);
		if (a->meet != STK_FLOAT64) { /* rounds operands such as int32 to float32 */
			float rounded;
			stk__convert_one(&rounded, STK_FLOAT, src, dtype);
			value.f = (double)rounded;
		}
	}
	return value;
}

/* Stores the result r. Converts doubles to the output's type; integers wrap around. For outputs of type bool, stores 1 if the value is not 0. */
STK_HD void stk__job_store(const struct stk_job *job, uint8_t *dst, union stk_job_value r)
{
	if (STK_PARAMS(stk_job_arithmetic, job).domain == STK_ARITH_DOUBLE && job->dst_dtype != STK_BOOL) {
		stk__store_double(dst, job->dst_dtype, r.f);
		return;
	}
	uint64_t v = STK_PARAMS(stk_job_arithmetic, job).domain == STK_ARITH_DOUBLE ? r.f != 0
		     : job->dst_dtype == STK_BOOL                                   ? r.u != 0
										    : r.u;
	switch (stk__job_size(job->dst_dtype)) {
	case 1:
		*dst = (uint8_t)v;
		break;
	case 2:
		*(uint16_t *)(void *)dst = (uint16_t)v;
		break;
	case 4:
		*(uint32_t *)(void *)dst = (uint32_t)v;
		break;
	default:
		*(uint64_t *)(void *)dst = v;
	}
}

/* Computes one output. Returns false if integers are divided by 0. */
STK_HD bool stk__job_arithmetic_one(const struct stk_job *job, const struct stk_job_place *p)
{
	const struct stk_job_arithmetic *op = &STK_PARAMS(stk_job_arithmetic, job);
	union stk_job_value a = stk__job_load(job, p->src[0], job->src_dtype[0]), b = a;
	if (op->operands == 2)
		b = stk__job_load(job, p->src[1], job->src_dtype[1]);
	if (op->divides && b.u == 0)
		return false;
	if (op->by_value) { /* a negative number is less than any unsigned one */
		bool a_below = job->src_dtype[0] != STK_UINT64 && a.i < 0, b_below = job->src_dtype[1] != STK_UINT64 && b.i < 0;
		if (a_below || b_below) {
			a.u = !a_below;
			b.u = !b_below;
		}
	}
	if (op->domain == STK_ARITH_INT64)
		a.i = stk__arith_int64(op->op, a.i, b.i);
	else if (op->domain == STK_ARITH_UINT64)
		a.u = stk__arith_uint64(op->op, a.u, b.u);
	else
		a.f = stk__arith_double(op->op, a.f, b.f);
	stk__job_store(job, p->dst, a);
	return true;
}

#endif
