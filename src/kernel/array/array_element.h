/* SPDX-License-Identifier: Apache-2.0
 * One output of an array job (array.h), for C and CUDA alike: what the GPU runs, and what the loops of the CPU (array_run.h) are compared with. */
#ifndef STK_KERNEL_ARRAY_ELEMENT_H
#define STK_KERNEL_ARRAY_ELEMENT_H

#include "kernel/array/array.h"
#include "kernel/convert/convert_one.h"

/* Where output i and its sources lie. */
struct stk_array_place {
	uint8_t *dst;
	const uint8_t *src[2];
	bool inside;
};

STK_HD struct stk_array_place stk__array_place(const struct stk_array_job *job, uint32_t i)
{
	int64_t dst = 0, first = 0, second = 0;
	bool inside = true;
	for (int32_t k = job->ndim - 1; k >= 0; k--) {
		const struct stk_array_dim *d = &job->dim[k];
		uint32_t size = (uint32_t)d->size, rest = k ? i / size : 0, at = i - rest * size; /* 64-bit divisions would be slow */
		dst += at * d->dst;
		first += at * d->src[0];
		second += at * d->src[1];
		inside = inside && at >= (uint32_t)d->begin && at < (uint32_t)d->end;
		i = rest;
	}
	struct stk_array_place place;
	place.dst = job->dst + dst;
	place.src[0] = job->src[0] + first;
	place.src[1] = job->src[1] + second;
	place.inside = inside;
	return place;
}

STK_HD void stk__array_move(uint8_t *dst, const uint8_t *src, int32_t size)
{
	switch (size) {
	case 1:
		*dst = *src;
		break;
	case 2:
		*(uint16_t *)(void *)dst = *(const uint16_t *)(const void *)src;
		break;
	case 4:
		*(uint32_t *)(void *)dst = *(const uint32_t *)(const void *)src;
		break;
	default:
		*(uint64_t *)(void *)dst = *(const uint64_t *)(const void *)src;
	}
}

/* Bytes of an element. Two bits a type: no table, which the GPU would have to read, and no call. */
STK_HD int32_t stk__array_size(int dtype)
{
#define STK_ARRAY_BITS(name, value, bytes, text) | (bytes == 8 ? 3u : bytes / 2u) << 2 * value
	return 1 << ((0u STK_DTYPE_LIST(STK_ARRAY_BITS)) >> 2 * dtype & 3);
#undef STK_ARRAY_BITS
}

STK_HD bool stk__array_is_whole(int dtype)
{
	return dtype != STK_FLOAT && dtype != STK_FLOAT64 && dtype != STK_FLOAT16 && dtype != STK_BFLOAT16;
}

STK_HD void stk__array_copy_one(const struct stk_array_job *job, const struct stk_array_place *p)
{
	int32_t element = job->copy.element;
	if (!p->inside)
		stk__array_move(p->dst, job->copy.fill, element ? element : stk__array_size(job->dst_dtype));
	else if (element)
		stk__array_move(p->dst, p->src[0], element);
	else
		stk__convert_one(p->dst, job->dst_dtype, p->src[0], job->src_dtype[0]);
}

/* ---- arithmetic ---- */

union stk_array_value {
	int64_t i;
	uint64_t u;
	double f;
};

/* Loads an operand in the type where operands meet, as the domain holds it. */
STK_HD union stk_array_value stk__array_load(const struct stk_array_job *job, const uint8_t *src, int dtype)
{
	const struct stk_array_arithmetic *a = &job->arithmetic;
	union stk_array_value value;
	if (a->domain != STK_ARITH_DOUBLE) { /* bits, which saturation would change */
		stk__convert_one(&value, dtype == STK_UINT64 ? STK_UINT64 : STK_INT64, src, dtype);
	} else {
		stk__convert_one(&value, STK_FLOAT64, src, dtype);
		if (a->meet != STK_FLOAT64) { /* int32 and the like lose bits when they become float32 */
			float rounded;
			stk__convert_one(&rounded, STK_FLOAT, src, dtype);
			value.f = (double)rounded;
		}
	}
	return value;
}

/* Integers wrap around to the type of the result: its lowest bytes. */
STK_HD void stk__array_store(const struct stk_array_job *job, uint8_t *dst, union stk_array_value r)
{
	if (job->arithmetic.domain == STK_ARITH_DOUBLE && job->dst_dtype != STK_BOOL) {
		stk__store_double(dst, job->dst_dtype, r.f);
		return;
	}
	uint64_t v = job->arithmetic.domain == STK_ARITH_DOUBLE ? r.f != 0 : job->dst_dtype == STK_BOOL ? r.u != 0 : r.u;
	switch (stk__array_size(job->dst_dtype)) {
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

/* False: a division of whole numbers by 0. */
STK_HD bool stk__array_arithmetic_one(const struct stk_array_job *job, const struct stk_array_place *p)
{
	const struct stk_array_arithmetic *op = &job->arithmetic;
	union stk_array_value a = stk__array_load(job, p->src[0], job->src_dtype[0]), b = a;
	if (op->operands == 2)
		b = stk__array_load(job, p->src[1], job->src_dtype[1]);
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
	stk__array_store(job, p->dst, a);
	return true;
}

/* ---- normalize ---- */

STK_HD float stk__array_float(const uint8_t *src, int dtype)
{
	float x;
	stk__convert_one(&x, STK_FLOAT, src, dtype);
	return x;
}

/* Offset, in elements, of index i in dims that are numbered in order. */
STK_HD int64_t stk__array_offset(const struct stk_array_axis *axes, int32_t n, uint32_t i)
{
	int64_t offset = 0;
	for (int32_t k = n - 1; k >= 0; k--) {
		uint32_t rest = k ? i / axes[k].size : 0;
		offset += (i - rest * axes[k].size) * axes[k].stride;
		i = rest;
	}
	return offset;
}

STK_HD double stk__array_mean(const struct stk_array_job *job, uint32_t group, double sum)
{
	const struct stk_array_normalize *n = &job->normalize;
	return n->n_mean ? ((const double *)job->constants)[n->n_mean == 1 ? 0 : group] : sum / (double)n->groups.count;
}

/* Whether a group is measured by its sum and the sum of its squares, which are exact for bytes: no order of sums matters then. */
STK_HD bool stk__array_measures_exactly(const struct stk_array_job *job)
{
	return job->src_dtype[0] == STK_UINT8 && !job->normalize.n_mean;
}

/* The squares of the distances of `count` whole numbers from their mean, from their sum and the sum of their squares: about the whole part of the mean, in
 * whole numbers, less what the mean's fraction makes. */
STK_HD double stk__array_spread(uint32_t count, double sum, double squares)
{
	uint64_t s = (uint64_t)sum, whole = s / count, rest = s - whole * count;
	uint64_t about = (uint64_t)squares - 2 * whole * s + whole * whole * count;
	return (double)about - (double)rest * ((double)rest / (double)count);
}

STK_HD double stk__array_factor(const struct stk_array_job *job, uint32_t group, double squares)
{
	const struct stk_array_normalize *n = &job->normalize;
	if (n->n_factor)
		return ((const double *)job->constants)[n->n_mean + (n->n_factor == 1 ? 0 : (int32_t)group)];
	int64_t count = (int64_t)n->groups.count - n->ddof;
	double variance = (count > 0 ? squares / (double)count : 0) + n->epsilon;
	return variance > 0 ? n->scale / sqrt(variance) : 0;
}

STK_HD void stk__array_normalize_one(const struct stk_array_job *job, const struct stk_array_place *p)
{
	const double *stats = (const double *)(const void *)p->src[1];
	float y = (float)(((double)stk__array_float(p->src[0], job->src_dtype[0]) - stats[0]) * stats[1] + job->normalize.shift);
	stk__convert_one(p->dst, job->dst_dtype, &y, STK_FLOAT);
}

/* ---- reductions ---- */

STK_HD union stk_array_value stk__array_reduce_identity(const struct stk_array_job *job)
{
	const struct stk_array_reduce *r = &job->reduce;
	bool min = r->op == STK_REDUCE_MIN, empty = r->groups.count == 0;
	union stk_array_value v;
	v.u = 0; /* 0 in all domains */
	if (!min && r->op != STK_REDUCE_MAX)
		return v;
	if (r->domain == STK_ARITH_INT64)
		v.i = min ? INT64_MAX : INT64_MIN; /* stored as the limit of a narrower type */
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

/* Joins two parts of a group. */
STK_HD union stk_array_value stk__array_reduce_join(const struct stk_array_job *job, union stk_array_value a, union stk_array_value b)
{
	int32_t op = job->reduce.op, domain = job->reduce.domain;
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

/* What one element adds to its group. */
STK_HD union stk_array_value stk__array_reduce_term(const struct stk_array_job *job, const uint8_t *src, double mean)
{
	const struct stk_array_reduce *r = &job->reduce;
	bool squares =
		r->op == STK_REDUCE_MEAN_SQUARE || r->op == STK_REDUCE_RMS || r->op == STK_REDUCE_VARIANCE || r->op == STK_REDUCE_STD_DEV;
	union stk_array_value v;
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

STK_HD double stk__array_reduce_mean(const struct stk_array_job *job, uint32_t group)
{
	double mean = 0;
	if (job->reduce.op == STK_REDUCE_VARIANCE || job->reduce.op == STK_REDUCE_STD_DEV)
		stk__convert_one(&mean, STK_FLOAT64, job->src[1] + (int64_t)group * job->reduce.mean_step, job->src_dtype[1]);
	return mean;
}

/* The integer result of integers: the sum as the output's type holds it, quotient and root truncated. */
STK_HD int64_t stk__array_reduce_whole(const struct stk_array_job *job, union stk_array_value v)
{
	int32_t op = job->reduce.op, bits = 64 - 8 * stk__array_size(job->dst_dtype);
	bool with_sign = job->reduce.domain == STK_ARITH_INT64;
	v.u <<= bits;
	if (with_sign)
		v.i >>= bits;
	else
		v.u >>= bits;
	if (op == STK_REDUCE_SUM || job->reduce.groups.count == 0)
		return v.i;
	if (with_sign)
		v.i /= (int64_t)job->reduce.groups.count;
	else
		v.u /= job->reduce.groups.count;
	if (op == STK_REDUCE_RMS) {
		double root = sqrt(with_sign ? (double)v.i : (double)v.u);
		v.i = root >= 0 ? (int64_t)root : 0;
	}
	return v.i;
}

/* Stores a group's result. */
STK_HD void stk__array_reduce_store(const struct stk_array_job *job, uint8_t *dst, union stk_array_value v)
{
	const struct stk_array_reduce *r = &job->reduce;
	bool whole = stk__array_is_whole(job->dst_dtype), extreme = r->op == STK_REDUCE_MIN || r->op == STK_REDUCE_MAX;
	double count = (double)r->groups.count, x = r->domain == STK_ARITH_DOUBLE  ? v.f
						    : r->domain == STK_ARITH_INT64 ? (double)v.i
										   : (double)v.u;
	if (r->domain != STK_ARITH_DOUBLE && whole) {
		v.i = extreme ? v.i : stk__array_reduce_whole(job, v);
		stk__convert_one(dst, job->dst_dtype, &v, r->domain == STK_ARITH_INT64 ? STK_INT64 : STK_UINT64);
		return;
	}
	if (extreme)
		x = x == 0 ? 0 : x; /* of 0 and -0, whichever came first */
	else if (r->op == STK_REDUCE_VARIANCE || r->op == STK_REDUCE_STD_DEV)
		x /= count - (double)r->ddof;
	else if (r->op != STK_REDUCE_SUM)
		x /= count;
	if (r->op == STK_REDUCE_RMS || r->op == STK_REDUCE_STD_DEV)
		x = sqrt(x);
	stk__store_double(dst, job->dst_dtype, x);
}

/* ---- one-hot ---- */

STK_HD void stk__array_one_hot_one(const struct stk_array_job *job, const struct stk_array_place *p, uint32_t i)
{
	const struct stk_array_one_hot *h = &job->one_hot;
	double value;
	stk__convert_one(&value, STK_FLOAT64, p->src[0], job->src_dtype[0]);
	value = trunc(value);
	bool on = value == (double)(i / h->inner % h->classes);
	stk__array_move(p->dst, on ? h->on : h->off, stk__array_size(job->dst_dtype));
}

/* ---- points ---- */

/* A component of a point. */
STK_HD float stk__array_point(const struct stk_array_job *job, uint32_t point, uint32_t row)
{
	const struct stk_array_points *p = &job->points;
	const float *factors = (const float *)job->constants + row * (uint32_t)p->in;
	int32_t size = stk__array_size(job->src_dtype[0]);
	const uint8_t *src = job->src[0] + (int64_t)point * p->in * size;
	float sum = 0;
	for (int32_t k = 0; k < p->in; k++, src += size) {
		float x;
		stk__convert_one(&x, STK_FLOAT, src, job->src_dtype[0]);
		sum = k ? sum + x * factors[k] : x * factors[k];
	}
	return sum + ((const float *)job->constants)[p->in * p->out + (int32_t)row];
}

STK_HD void stk__array_points_one(const struct stk_array_job *job, uint32_t i)
{
	const struct stk_array_points *p = &job->points;
	uint32_t point = i / (uint32_t)p->out, row = i - point * (uint32_t)p->out;
	float sum = stk__array_point(job, point, row);
	if (p->boxes) {
		float other = stk__array_point(job, point ^ 1, row);
		sum = (point & 1 ? other > sum : other < sum) ? other : sum;
	}
	stk__convert_one(job->dst + (int64_t)i * stk__array_size(job->dst_dtype), job->dst_dtype, &sum, STK_FLOAT);
}

/* ---- filters ---- */

/* What the filter of a job works on. */
STK_HD struct stk_filter_data stk__array_filter_data(const struct stk_array_job *job)
{
	struct stk_filter_data d;
	d.src = job->src[0];
	d.dst = job->dst;
	d.weights = job->constant_bytes ? (const float *)job->constants : (const float *)(const void *)job->src[1];
	d.work = (float *)job->work;
	d.src_dtype = job->src_dtype[0];
	d.dst_dtype = job->dst_dtype;
	d.src_size = stk__array_size(d.src_dtype);
	d.dst_size = stk__array_size(d.dst_dtype);
	return d;
}

/* ---- pointwise functions ---- */

STK_HD struct stk_pointwise_data stk__array_pointwise_data(const struct stk_array_job *job)
{
	struct stk_pointwise_data d;
	d.src = job->src[0];
	d.dst = job->dst;
	d.constants = job->constants;
	d.n = job->n;
	d.src_dtype = job->src_dtype[0];
	d.dst_dtype = job->dst_dtype;
	d.src_size = stk__array_size(d.src_dtype);
	d.dst_size = stk__array_size(d.dst_dtype);
	return d;
}

/* ---- equalised histograms ---- */

STK_HD struct stk_equalize_data stk__array_equalize_data(const struct stk_array_job *job)
{
	struct stk_equalize_data d;
	d.src = job->src[0];
	d.dst = job->dst;
	d.tables = (uint8_t *)job->work;
	d.lab = (const struct stk_lab_tables *)job->constants;
	return d;
}

#endif
