/* SPDX-License-Identifier: Apache-2.0
 * Reduces one group, and combines parts of a group, in C and CUDA. */
#ifndef STK_KERNEL_REDUCE_ONE_H
#define STK_KERNEL_REDUCE_ONE_H

#include "kernel/arithmetic/arithmetic_one.h"
#include "kernel/reduce/reduce.h"

/* Returns the offset, in elements, of position i. Positions are numbered over all the dimensions, the last one fastest. */
STK_HD int64_t stk__job_offset(const struct stk_job_axis *axes, int32_t n, uint32_t i)
{
	int64_t offset = 0;
	for (int32_t k = n - 1; k >= 0; k--) {
		uint32_t rest = k ? i / axes[k].size : 0;
		offset += (i - rest * axes[k].size) * axes[k].stride;
		i = rest;
	}
	return offset;
}

STK_HD union stk_job_value stk__job_reduce_identity(const struct stk_job *job)
{
	const struct stk_job_reduce *r = &STK_PARAMS(stk_job_reduce, job);
	bool min = r->op == STK_REDUCE_MIN, empty = r->groups.count == 0;
	union stk_job_value v;
	v.u = 0; /* the number 0 in all domains */
	if (!min && r->op != STK_REDUCE_MAX)
		return v;
	if (r->domain == STK_ARITH_INT64)
		v.i = min ? INT64_MAX : INT64_MIN; /* saturates to the limit of a narrower type when it is stored */
	else if (r->domain == STK_ARITH_UINT64)
		v.u = min ? UINT64_MAX : 0;
	else {
		double most = !empty                           ? (double)INFINITY
			      : job->dst_dtype == STK_FLOAT64  ? 0x1.fffffffffffffp1023
			      : job->dst_dtype == STK_FLOAT    ? (double)0x1.fffffep127f
			      : job->dst_dtype == STK_BFLOAT16 ? 0x1.fep127
							       : 65504;
		v.f = min ? most : -most;
	}
	return v;
}

/* Returns the result for two parts of a group together. a, b: the results for each part. */
STK_HD union stk_job_value stk__job_reduce_join(const struct stk_job *job, union stk_job_value a, union stk_job_value b)
{
	int32_t op = STK_PARAMS(stk_job_reduce, job).op, domain = STK_PARAMS(stk_job_reduce, job).domain;
	if (op == STK_REDUCE_MIN || op == STK_REDUCE_MAX) {
		bool less = domain == STK_ARITH_DOUBLE ? b.f < a.f : domain == STK_ARITH_INT64 ? b.i < a.i : b.u < a.u;
		bool more = domain == STK_ARITH_DOUBLE ? b.f > a.f : domain == STK_ARITH_INT64 ? b.i > a.i : b.u > a.u;
		return (op == STK_REDUCE_MIN ? less : more) ? b : a;
	}
	if (domain == STK_ARITH_DOUBLE)
		a.f += b.f;
	else
		a.u += b.u;
	return a;
}

/* Returns the contribution of the element at `src` to its group. mean: subtracted from the element if the domain is STK_ARITH_DOUBLE. */
STK_HD union stk_job_value stk__job_reduce_term(const struct stk_job *job, const uint8_t *src, double mean)
{
	const struct stk_job_reduce *r = &STK_PARAMS(stk_job_reduce, job);
	bool squares =
		r->op == STK_REDUCE_MEAN_SQUARE || r->op == STK_REDUCE_RMS || r->op == STK_REDUCE_VARIANCE || r->op == STK_REDUCE_STD_DEV;
	union stk_job_value v;
	if (r->domain == STK_ARITH_DOUBLE) {
		stk__convert_one(&v, STK_FLOAT64, src, job->src_dtype[0]);
		v.f -= mean;
		v.f = squares ? v.f * v.f : v.f;
	} else {
		stk__convert_one(&v, r->domain == STK_ARITH_INT64 ? STK_INT64 : STK_UINT64, src, job->src_dtype[0]);
		v.u = squares ? v.u * v.u : v.u;
	}
	return v;
}

STK_HD double stk__job_reduce_mean(const struct stk_job *job, uint32_t group)
{
	double mean = 0;
	if (STK_PARAMS(stk_job_reduce, job).op == STK_REDUCE_VARIANCE || STK_PARAMS(stk_job_reduce, job).op == STK_REDUCE_STD_DEV)
		stk__convert_one(
			&mean, STK_FLOAT64, job->src[1] + (int64_t)group * STK_PARAMS(stk_job_reduce, job).mean_step, job->src_dtype[1]);
	return mean;
}

/* Returns the integer result for integer elements: the sum wraps around to the output's type; quotient and root are truncated. */
STK_HD int64_t stk__job_reduce_whole(const struct stk_job *job, union stk_job_value v)
{
	int32_t op = STK_PARAMS(stk_job_reduce, job).op, bits = 64 - 8 * stk__job_size(job->dst_dtype);
	bool with_sign = STK_PARAMS(stk_job_reduce, job).domain == STK_ARITH_INT64;
	v.u <<= bits;
	if (with_sign)
		v.i >>= bits;
	else
		v.u >>= bits;
	if (op == STK_REDUCE_SUM || STK_PARAMS(stk_job_reduce, job).groups.count == 0)
		return v.i;
	if (with_sign)
		v.i /= (int64_t)STK_PARAMS(stk_job_reduce, job).groups.count;
	else
		v.u /= STK_PARAMS(stk_job_reduce, job).groups.count;
	if (op == STK_REDUCE_RMS) {
		double root = sqrt(with_sign ? (double)v.i : (double)v.u);
		v.i = root >= 0 ? (int64_t)root : 0;
	}
	return v.i;
}

/* Computes a group's result from v, the sum or the extreme of its elements, and stores it at dst. */
STK_HD void stk__job_reduce_store(const struct stk_job *job, uint8_t *dst, union stk_job_value v)
{
	const struct stk_job_reduce *r = &STK_PARAMS(stk_job_reduce, job);
	bool whole = stk__job_is_whole(job->dst_dtype), extreme = r->op == STK_REDUCE_MIN || r->op == STK_REDUCE_MAX;
	double count = (double)r->groups.count, x = r->domain == STK_ARITH_DOUBLE  ? v.f
						    : r->domain == STK_ARITH_INT64 ? (double)v.i
										   : (double)v.u;
	if (r->domain != STK_ARITH_DOUBLE && whole) {
		v.i = extreme ? v.i : stk__job_reduce_whole(job, v);
		stk__convert_one(dst, job->dst_dtype, &v, r->domain == STK_ARITH_INT64 ? STK_INT64 : STK_UINT64);
		return;
	}
	if (extreme)
		x = x == 0 ? 0 : x; /* -0 becomes 0; otherwise the result would depend on whether 0 or -0 came first */
	else if (r->op == STK_REDUCE_VARIANCE || r->op == STK_REDUCE_STD_DEV)
		x /= count - (double)r->ddof;
	else if (r->op != STK_REDUCE_SUM)
		x /= count;
	if (r->op == STK_REDUCE_RMS || r->op == STK_REDUCE_STD_DEV)
		x = sqrt(x);
	stk__store_double(dst, job->dst_dtype, x);
}

#endif
