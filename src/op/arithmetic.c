/* SPDX-License-Identifier: Apache-2.0
 * _arithmetic: what operators and functions of math make of nodes, element by element. */
#include "op/arithmetic.h"

#include "kernel/array/copy_nd.h"
#include "kernel/convert/convert.h"
#include "op/dims.h"

#include <string.h>

struct arithmetic {
	const char *op;
};

static const struct stk_arg_def arithmetic_args[] = {
	{.name = "op",
		.type = STK_ARG_STRING,
		.flags = STK_REQUIRED,
		.offset = offsetof(struct arithmetic, op),
		.choices = "abs|acos|acosh|add|asin|asinh|atan|atan2|atanh|bitand|bitor|bitxor|cbrt|ceil|cos|cosh|div|eq|exp|fabs|fdiv|"
			   "floor|fpow|ge|gt|le|"
			   "log|log10|log2|lt|max|min|mod|mul|ne|neg|pos|pow|rsqrt|sin|sinh|sqrt|sub|tan|tanh",
		.doc = "The function: div is // (towards zero), fdiv is /, mod has the sign of the left operand."},
	STK_ARG_END,
};

/* How a call computes: operands are taken to `meet`, held in `domain`; the result becomes out's type. */
struct plan {
	const struct stk_arith *op;
	enum stk_dtype meet, out;
	enum stk_arith_domain domain;
};

static enum stk_status plan_types(const struct stk_call *call, struct plan *p, struct stk_error *err)
{
	enum stk_dtype a = call->in[0].desc.dtype, b = p->op->operands == 2 ? call->in[1].desc.dtype : a;
	p->meet = p->out = STK_NO_DTYPE;
	if (p->op->kind == STK_ARITH_BOOLEAN)
		p->out = STK_BOOL;
	if (a == STK_NO_DTYPE || b == STK_NO_DTYPE)
		return STK_OK;
	p->meet = stk__arith_promote(a, b);
	bool whole = stk__dtype_whole(p->meet);
	if (p->meet == STK_BOOL && (p->op->kind == STK_ARITH_SAME || p->op->kind == STK_ARITH_REAL))
		return stk__fail(err, STK_INVALID, "\"%s\" is not for bools; cast one to a number", p->op->name);
	if (p->op->kind == STK_ARITH_BITS && !whole)
		return stk__fail(
			err, STK_INVALID, "\"%s\" is for whole numbers, not %s and %s", p->op->name, stk_dtype_name(a), stk_dtype_name(b));
	if (p->op->kind == STK_ARITH_REAL && whole)
		p->meet = STK_FLOAT;
	if (p->op->kind != STK_ARITH_BOOLEAN)
		p->out = p->meet;
	else if (whole && p->meet == STK_INT64 && (a == STK_UINT64 || b == STK_UINT64))
		p->meet = STK_UINT64; /* compared by value: see compare_mixed */
	p->domain = !stk__dtype_whole(p->meet) ? STK_ARITH_DOUBLE : p->meet == STK_UINT64 ? STK_ARITH_UINT64 : STK_ARITH_INT64;
	return STK_OK;
}

static enum stk_status make_plan(const struct stk_call *call, struct plan *p, struct stk_error *err)
{
	const struct arithmetic *a = call->args;
	*p = (struct plan){.op = stk__arith_find(a->op)};
	if (!p->op)
		return stk__fail(err, STK_INVALID, "there is no function \"%s\"", a->op);
	if (call->n_in != p->op->operands)
		return stk__fail(err, STK_INVALID, "\"%s\" takes %d operand%s, not %d", a->op, p->op->operands,
			p->op->operands == 1 ? "" : "s", call->n_in);
	return plan_types(call, p, err);
}

/* NumPy's broadcasting: dims are matched from the last on; an extent of 1, or a missing dim, repeats. */
static enum stk_status broadcast(const struct stk_desc *a, const struct stk_desc *b, struct stk_desc *out, struct stk_error *err)
{
	if (a->ndim < 0 || b->ndim < 0) {
		out->ndim = -1;
		return STK_OK;
	}
	out->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
	for (int32_t k = 1; k <= out->ndim; k++) {
		int64_t x = k <= a->ndim ? a->shape[a->ndim - k] : 1, y = k <= b->ndim ? b->shape[b->ndim - k] : 1;
		if (x >= 0 && y >= 0 && x != y && x != 1 && y != 1)
			return stk__fail(err, STK_SHAPE, "extents %lld and %lld in dim %d do not fit: they must be equal, or one of them 1",
				(long long)x, (long long)y, out->ndim - k);
		/* An unknown extent becomes whatever the other says, unless that is 1. */
		out->shape[out->ndim - k] = x == 1 ? y : y == 1 ? x : x < 0 ? y : x;
	}
	const struct stk_desc *with_layout = a->layout[0] && a->ndim == out->ndim ? a : b->layout[0] && b->ndim == out->ndim ? b : NULL;
	if (with_layout)
		memcpy(out->layout, with_layout->layout, sizeof out->layout);
	return STK_OK;
}

static enum stk_status arithmetic_infer(const struct stk_call *call, struct stk_error *err)
{
	struct plan p;
	struct stk_desc *out = &call->out[0].desc;
	enum stk_status s = make_plan(call, &p, err);
	*out = (struct stk_desc){.dtype = p.out};
	return s ? s : broadcast(&call->in[0].desc, &call->in[p.op->operands - 1].desc, out, err);
}

/* The operand spread over the output's shape; itself where it has as many elements, or one. */
static enum stk_status spread(const struct stk_call *call, const struct stk_tensor *t, const void **data, struct stk_error *err)
{
	const struct stk_desc *out = &call->out[0].desc, *in = &t->desc;
	int64_t n = stk_desc_elements(out), have = stk_desc_elements(in);
	*data = t->data;
	if (have == n || have == 1)
		return STK_OK;
	size_t element = stk_dtype_size(in->dtype);
	void *copy = stk__arena_take(call->tools->arena, (size_t)n * element);
	if (!copy)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to broadcast to %lld values", (long long)n);
	struct stk_copy_dim dims[STK_MAX_DIMS];
	ptrdiff_t dst = (ptrdiff_t)element, src = (ptrdiff_t)element;
	for (int32_t k = 1; k <= out->ndim; k++) {
		int64_t extent = k <= in->ndim ? in->shape[in->ndim - k] : 1, size = out->shape[out->ndim - k];
		dims[out->ndim - k] =
			(struct stk_copy_dim){.size = size, .step = extent == 1 ? 0 : 1, .limit = extent, .dst = dst, .src = src};
		dst *= size;
		src *= extent;
	}
	stk__copy_nd(dims, out->ndim, element, copy, t->data, NULL);
	*data = copy;
	return STK_OK;
}

enum { BLOCK = 512 };

union block {
	int64_t i[BLOCK];
	uint64_t u[BLOCK];
	double f[BLOCK];
};

static void fill_block(union block *b)
{
	for (int i = 1; i < BLOCK; i++)
		b->u[i] = b->u[0];
}

/* n values of `from`, taken to the type where the operands meet, as the domain holds them. */
static void load(const struct plan *p, const void *data, enum stk_dtype from, int64_t at, int n, union block *out)
{
	const char *x = (const char *)data + (size_t)at * stk_dtype_size(from);
	if (p->domain != STK_ARITH_DOUBLE) {
		stk__convert(out, from == STK_UINT64 ? STK_UINT64 : STK_INT64, x, from, n); /* bits, which saturation would change */
	} else if (p->meet == STK_FLOAT64) {
		stk__convert(out, STK_FLOAT64, x, from, n);
	} else {
		float rounded[BLOCK]; /* int32 and the like lose bits when they become float32 */
		stk__convert(rounded, STK_FLOAT, x, from, n);
		stk__convert(out, STK_FLOAT64, rounded, STK_FLOAT, n);
	}
}

/* Integers wrap around to the type of the result: its lowest bytes. */
static void store(const struct plan *p, const union block *r, void *data, int64_t at, int n)
{
	size_t size = stk_dtype_size(p->out);
	char *y = (char *)data + (size_t)at * size;
	if (p->domain == STK_ARITH_DOUBLE && p->out != STK_BOOL) {
		stk__convert(y, p->out, r, STK_FLOAT64, n);
		return;
	}
	for (int i = 0; i < n; i++) {
		uint64_t v = p->domain == STK_ARITH_DOUBLE ? r->f[i] != 0 : p->out == STK_BOOL ? r->u[i] != 0 : r->u[i];
		uint8_t v8 = (uint8_t)v;
		uint16_t v16 = (uint16_t)v;
		uint32_t v32 = (uint32_t)v;
		memcpy(y + (size_t)i * size,
			size == 1   ? (const void *)&v8
			: size == 2 ? (const void *)&v16
			: size == 4 ? (const void *)&v32
				    : &v,
			size);
	}
}

/* Comparisons of int64 with uint64 are by value: a negative number is less than any unsigned one, which is told by replacing such pairs by
 * (0, 1), their mirror by (1, 0). */
static void compare_mixed(union block *a, bool a_signed, union block *b, bool b_signed, int n)
{
	for (int i = 0; i < n; i++) {
		bool a_below = a_signed && a->i[i] < 0, b_below = b_signed && b->i[i] < 0;
		if (!a_below && !b_below)
			continue;
		a->u[i] = !a_below;
		b->u[i] = !b_below;
	}
}

static bool has_zero(const union block *b, int n)
{
	for (int i = 0; i < n; i++)
		if (b->u[i] == 0)
			return true;
	return false;
}

static bool divides(const struct plan *p)
{
	return p->domain != STK_ARITH_DOUBLE && (p->op->op == STK_ARITH_OP_div || p->op->op == STK_ARITH_OP_mod);
}

static bool compares_by_value(const struct plan *p)
{
	return p->op->kind == STK_ARITH_BOOLEAN && p->domain == STK_ARITH_UINT64;
}

static enum stk_status compute(const struct stk_call *call, const struct plan *p, const void *const data[2], struct stk_error *err)
{
	union block a, b;
	const struct stk_desc *x = &call->in[0].desc, *y = &call->in[p->op->operands - 1].desc;
	bool binary = p->op->operands == 2, a_one = stk_desc_elements(x) == 1, b_one = stk_desc_elements(y) == 1;
	int64_t total = stk_desc_elements(&call->out[0].desc);
	for (int64_t at = 0; at < total; at += BLOCK) {
		int n = total - at < BLOCK ? (int)(total - at) : BLOCK;
		load(p, data[0], x->dtype, a_one ? 0 : at, a_one ? 1 : n, &a);
		if (a_one)
			fill_block(&a);
		if (binary)
			load(p, data[1], y->dtype, b_one ? 0 : at, b_one ? 1 : n, &b);
		if (binary && b_one)
			fill_block(&b);
		if (divides(p) && has_zero(&b, n))
			return stk__fail(err, STK_INVALID, "whole numbers are divided by 0; cast to float for infinities");
		if (compares_by_value(p))
			compare_mixed(&a, x->dtype != STK_UINT64, &b, y->dtype != STK_UINT64, n);
		p->op->run[p->domain](&a, &a, &b, n);
		store(p, &a, call->out[0].data, at, n);
	}
	return STK_OK;
}

static enum stk_status arithmetic_run(const struct stk_call *call, struct stk_error *err)
{
	struct plan p;
	const void *data[2] = {NULL, NULL};
	enum stk_status s = make_plan(call, &p, err);
	for (int32_t i = 0; i < call->n_in && s == STK_OK; i++)
		s = spread(call, &call->in[i], &data[i], err);
	return s ? s : compute(call, &p, data, err);
}

static enum stk_status arithmetic_lower_array(const struct stk_call *call, struct stk_array_jobs *jobs, struct stk_error *err)
{
	struct plan p;
	enum stk_status s = make_plan(call, &p, err);
	if (s)
		return s;
	struct stk_array_arithmetic a = {.op = p.op->op,
		.domain = (int32_t)p.domain,
		.meet = p.meet,
		.operands = p.op->operands,
		.by_value = compares_by_value(&p),
		.divides = divides(&p)};
	stk__array_arithmetic(jobs, &a, call->in, &call->out[0]);
	return STK_OK;
}

const struct stk_op_def stk__op_arithmetic = {
	.name = "_arithmetic",
	.doc = "Computes element by element, with NumPy's broadcasting and DALI's types.\n\n"
	       "Whole numbers wrap around. A signed operand with an unsigned one of the same size or more gives the signed type of twice "
	       "that size; a whole\n"
	       "number with a float gives the float; /, and functions of whole numbers, give float32.",
	.inputs = {1, 2},
	.args = arithmetic_args,
	.args_size = sizeof(struct arithmetic),
	.flags = STK_OP_HIDDEN,
	.infer = arithmetic_infer,
	.run_cpu = arithmetic_run,
	.lower_array = arithmetic_lower_array,
};
