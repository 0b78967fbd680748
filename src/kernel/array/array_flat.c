/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array_flat.h"

#include "kernel/array/array_element.h"

/* Types whose values float32 holds. */
static bool in_float(int32_t dtype)
{
	return dtype == STK_UINT8 || dtype == STK_INT8 || dtype == STK_UINT16 || dtype == STK_INT16 || dtype == STK_FLOAT16 ||
	       dtype == STK_BFLOAT16 || dtype == STK_FLOAT;
}

/* Whole numbers whose sums and products modulo 2^32 follow from them modulo 2^32. */
static bool in_int32(int32_t dtype)
{
	return dtype == STK_UINT8 || dtype == STK_INT8 || dtype == STK_UINT16 || dtype == STK_INT16 || dtype == STK_INT32 ||
	       dtype == STK_UINT32;
}

/* Sums, differences, products; in float32 quotients too: rounded to double and then to float32 they are what float32 alone gives. */
static bool arithmetic_serves(const struct stk_array_job *job)
{
	const struct stk_array_arithmetic *a = &job->arithmetic;
	int32_t op = a->op, first = job->src_dtype[0], second = job->src_dtype[1];
	if (op != STK_ARITH_OP_add && op != STK_ARITH_OP_sub && op != STK_ARITH_OP_mul &&
		((op != STK_ARITH_OP_fdiv && op != STK_ARITH_OP_div) || a->domain != STK_ARITH_DOUBLE))
		return false;
	if (a->domain != STK_ARITH_DOUBLE)
		return in_int32(first) && in_int32(second) && in_int32(job->dst_dtype);
	return a->meet == STK_FLOAT && job->dst_dtype == STK_FLOAT && (in_float(first) || in_int32(first)) &&
	       (in_float(second) || in_int32(second));
}

static bool serves(const struct stk_array_job *job)
{
	if (job->kind == STK_ARRAY_COPY)
		return job->copy.element ? !job->copy.fills : in_float(job->src_dtype[0]) && in_float(job->dst_dtype);
	if (job->kind == STK_ARRAY_NORMALIZE)
		return in_float(job->src_dtype[0]) && in_float(job->dst_dtype);
	if (job->kind == STK_ARRAY_POINTWISE)
		return job->pointwise.op == STK_POINTWISE_ERASE || job->pointwise.op == STK_POINTWISE_GRID;
	return job->kind == STK_ARRAY_ARITHMETIC && arithmetic_serves(job);
}

/* How source k repeats; false: in no such way. */
static bool find_repeat(const struct stk_array_job *job, int k, struct stk_array_repeat *r)
{
	int64_t inner = 1;
	*r = (struct stk_array_repeat){1, 1, 0};
	for (int32_t d = job->ndim - 1; d >= 0; d--) {
		int64_t size = job->dim[d].size, step = job->dim[d].src[k];
		if (step != (int32_t)step)
			return false;
		if (step && !r->step)
			*r = (struct stk_array_repeat){(uint32_t)inner, (uint32_t)size, (int32_t)step};
		else if (step && step == (int64_t)r->step * r->size && inner == (int64_t)r->inner * r->size)
			r->size *= (uint32_t)size;
		else if (step)
			return false;
		inner *= size;
	}
	return true;
}

struct stk_array_flat stk__array_flat(const struct stk_array_job *job)
{
	struct stk_array_flat f = {.pieces = 0};
	if (!serves(job))
		return f;
	int32_t size = job->kind == STK_ARRAY_COPY && job->copy.element ? job->copy.element : stk__array_size(job->dst_dtype);
	int64_t inner = 1;
	for (int32_t d = job->ndim - 1; d >= 0; d--) {
		const struct stk_array_dim *dim = &job->dim[d];
		if (dim->begin != 0 || dim->end != dim->size || dim->dst != inner * size)
			return f;
		inner *= dim->size;
	}
	if ((uintptr_t)job->dst % (uintptr_t)size || !find_repeat(job, 0, &f.of[0]) || !find_repeat(job, 1, &f.of[1]))
		return f;
	if (job->kind == STK_ARRAY_COPY && job->copy.element && (f.of[0].inner != 1 || f.of[0].size != job->n || f.of[0].step != size))
		return f;
	uint32_t per_piece = STK_ARRAY_FLAT_PIECE / (uint32_t)size;
	f.lead = (uint32_t)((uintptr_t)job->dst % STK_ARRAY_FLAT_PIECE) / (uint32_t)size;
	f.pieces = (uint32_t)(((uint64_t)job->n + f.lead + per_piece - 1) / per_piece);
	return f;
}
