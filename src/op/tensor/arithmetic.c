/* SPDX-License-Identifier: Apache-2.0
 * _arithmetic: implements operators and functions of math on nodes, element by element. */
#include "op/tensor/arithmetic.h"

#include "op/dims.h"

#include <string.h>

struct arithmetic {
	const char *op;
};

/* "|abs|acos|...": the names that arithmetic_ops.h lists. */
#define BINARY(name, kind, whole, real) "|" #name
#define UNARY BINARY
static const char functions[] =
#include "kernel/arithmetic/arithmetic_ops.h"
	;

static const struct stk_arg_def arithmetic_args[] = {
	{.name = "op",
		.type = STK_ARG_STRING,
		.flags = STK_REQUIRED,
		.offset = offsetof(struct arithmetic, op),
		.choices = functions + 1,
		.doc = "The function: div is // (towards zero), fdiv is /, mod has the sign of the left operand; shl and shr drop the bits "
		       "that they shift out."},
	STK_ARG_END,
};

/* The types of a call: operands are converted to `meet` and computed on in `domain`; the result is converted to `out`. */
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
	bool is_integer = stk__dtype_whole(p->meet);
	if (p->meet == STK_BOOL && (p->op->kind == STK_ARITH_SAME || p->op->kind == STK_ARITH_REAL))
		return stk__fail(err, STK_INVALID, "\"%s\" does not take bools; cast one to a number", p->op->name);
	if (p->op->kind == STK_ARITH_BITS && !is_integer)
		return stk__fail(
			err, STK_INVALID, "\"%s\" takes integers, not %s and %s", p->op->name, stk_dtype_name(a), stk_dtype_name(b));
	if (p->op->kind == STK_ARITH_REAL && is_integer)
		p->meet = STK_FLOAT;
	if (p->op->kind != STK_ARITH_BOOLEAN)
		p->out = p->meet;
	else if (is_integer && p->meet == STK_INT64 && (a == STK_UINT64 || b == STK_UINT64))
		p->meet = STK_UINT64; /* a signed and an unsigned operand are compared by value (compares_by_value) */
	p->domain = !stk__dtype_whole(p->meet) ? STK_ARITH_DOUBLE : p->meet == STK_UINT64 ? STK_ARITH_UINT64 : STK_ARITH_INT64;
	return STK_OK;
}

static enum stk_status make_plan(const struct stk_call *call, struct plan *p, struct stk_error *err)
{
	const struct arithmetic *a = call->args;
	/* bitnot of a bool inverts its only bit, as `not` does */
	bool negates = call->n_in == 1 && call->in[0].desc.dtype == STK_BOOL && strcmp(a->op, "bitnot") == 0;
	*p = (struct plan){.op = stk__arith_find(negates ? "not" : a->op)};
	if (!p->op)
		return stk__fail(err, STK_INVALID, "there is no function \"%s\"", a->op);
	if (call->n_in != p->op->operands)
		return stk__fail(err, STK_INVALID, "\"%s\" takes %d operand%s, not %d", a->op, p->op->operands,
			p->op->operands == 1 ? "" : "s", call->n_in);
	return plan_types(call, p, err);
}

/* Returns true if the result has frames because `a`, whose number of dims is not known yet, has frames, and `b` is a scalar or has frames too. */
static bool holds_frames(const struct stk_desc *a, const struct stk_desc *b)
{
	return a->ndim < 0 && a->layout[0] == 'F' && (b->ndim == 0 || (b->ndim < 0 && b->layout[0] == 'F'));
}

/* Fails unless the shorter layout is the end of the longer one: dims are matched from the last one backwards. */
static enum stk_status check_layouts(const char *a, const char *b, struct stk_error *err)
{
	size_t na = strlen(a), nb = strlen(b);
	const char *end = na > nb ? a + na - nb : a;
	if (strcmp(end, nb > na ? b + nb - na : b) == 0)
		return STK_OK;
	return stk__fail(err, STK_SHAPE,
		"the layouts \"%s\" and \"%s\" do not go together: they must be equal, or one the end of the other; reshape(layout=...) "
		"gives a tensor another one",
		a, b);
}

/* Sets *out to the desc to which a and b are broadcast, by NumPy's rules: dims are matched from the last one backwards; an extent of 1, or a missing dim,
 * repeats. STK_SHAPE: extents or layouts do not match. */
static enum stk_status broadcast(const struct stk_desc *a, const struct stk_desc *b, struct stk_desc *out, struct stk_error *err)
{
	if (a->ndim < 0 || b->ndim < 0) {
		out->ndim = -1;
		if (holds_frames(a, b) || holds_frames(b, a))
			strcpy(out->layout, "F"); /* no more is known about the layout, as for per_frame's output */
		return STK_OK;
	}
	out->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
	for (int32_t k = 1; k <= out->ndim; k++) {
		int64_t x = k <= a->ndim ? a->shape[a->ndim - k] : 1, y = k <= b->ndim ? b->shape[b->ndim - k] : 1;
		if (x >= 0 && y >= 0 && x != y && x != 1 && y != 1)
			return stk__fail(err, STK_SHAPE,
				"extents %lld and %lld in dim %d do not match: they must be equal, or one of them 1", (long long)x,
				(long long)y, out->ndim - k);
		/* if one extent is unknown, the result has the other one, unless that is 1; then the result's extent is unknown too */
		out->shape[out->ndim - k] = x == 1 ? y : y == 1 ? x : x < 0 ? y : x;
	}
	enum stk_status s = check_layouts(a->layout, b->layout, err);
	if (s)
		return s;
	const struct stk_desc *with_layout = a->layout[0] && a->ndim == out->ndim ? a : b->layout[0] && b->ndim == out->ndim ? b : NULL;
	if (with_layout)
		memcpy(out->layout, with_layout->layout, sizeof out->layout);
	return STK_OK;
}

static enum stk_status arithmetic_infer(const struct stk_call *call, struct stk_error *err)
{
	struct plan *p = call->state;
	struct stk_desc *out = &call->out[0].desc;
	enum stk_status s = make_plan(call, p, err);
	*out = (struct stk_desc){.dtype = p->out};
	return s ? s : broadcast(&call->in[0].desc, &call->in[p->op->operands - 1].desc, out, err);
}

static bool divides(const struct plan *p)
{
	return p->domain != STK_ARITH_DOUBLE && (p->op->op == STK_ARITH_OP_div || p->op->op == STK_ARITH_OP_mod);
}

static bool compares_by_value(const struct plan *p)
{
	return p->op->kind == STK_ARITH_BOOLEAN && p->domain == STK_ARITH_UINT64;
}

static enum stk_status arithmetic_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct plan *p = call->state;
	struct stk_job_arithmetic a = {.op = p->op->op,
		.domain = (int32_t)p->domain,
		.meet = p->meet,
		.operands = p->op->operands,
		.by_value = compares_by_value(p),
		.divides = divides(p)};
	return stk__job_arithmetic(jobs, &a, call->in, &call->out[0], err);
}

const struct stk_op_def stk__op_arithmetic = {
	.name = "_arithmetic",
	.doc = "Computes element by element, with NumPy's broadcasting and DALI's types.\n\n"
	       "Whole numbers wrap around. A signed operand with an unsigned one of the same size or more gives the signed type of "
	       "twice that size; a whole\n"
	       "number with a float gives the float; /, and functions of whole numbers, give float32.",
	.inputs = {1, 2},
	.args = arithmetic_args,
	.args_size = sizeof(struct arithmetic),
	.state_size = sizeof(struct plan),
	.flags = STK_OP_HIDDEN,
	.infer = arithmetic_infer,
	.lower_jobs = arithmetic_lower_jobs,
};
