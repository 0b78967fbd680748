/* SPDX-License-Identifier: Apache-2.0
 * _truth: makes a bool of a number, for conditions. */
#include "op/dims.h"

struct truth {
	const char *of;
	bool negate, strict;
};

static const struct stk_arg_def truth_args[] = {
	STK_ARG(struct truth, of, STK_ARG_STRING, "\"if\"", STK_FREE, 0,
		"Source of the condition, for messages: \"if\", \"not\", \"and\", \"or\"."),
	STK_ARG(struct truth, negate, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Returns whether the number is 0, instead of whether it is not 0."),
	STK_ARG(struct truth, strict, STK_ARG_BOOL, "false", STK_FREE, 0, "Take only bool."),
	STK_ARG_END,
};

static enum stk_status check(const struct truth *a, const struct stk_desc *in, struct stk_error *err)
{
	if (in->ndim > 0)
		return stk__fail(err, STK_SHAPE,
			"\"%s\" needs one truth value a sample, a scalar, and got a tensor with %d dim%s; reduce it first (fn.reductions), "
			"or compare element by element with & | and == 0",
			a->of, in->ndim, in->ndim == 1 ? "" : "s");
	if (a->strict && in->dtype != STK_NO_DTYPE && in->dtype != STK_BOOL)
		return stk__fail(err, STK_INVALID, "\"%s\" takes bool, not %s; compare first (!= 0)", a->of, stk_dtype_name(in->dtype));
	return STK_OK;
}

static enum stk_status truth_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct truth *a = call->args;
	call->out[0].desc = (struct stk_desc){.dtype = STK_BOOL};
	enum stk_status s = check(a, &call->in[0].desc, err);
	if (s == STK_OK && !stk__building(call) && call->in[0].desc.dtype == STK_BOOL && !a->negate)
		call->out[0].data = call->in[0].data; /* the output is a view, so nothing is copied */
	return s;
}

/* Returns whether the only element of t is 0, -0 or false. As in Python, NaN is not 0, nor is a small fraction, which a cast to bool would round to 0. */
static bool is_zero(const struct stk_tensor *t)
{
	const uint8_t *b = t->data;
	size_t size = stk_dtype_size(t->desc.dtype);
	bool real =
		t->desc.dtype == STK_FLOAT || t->desc.dtype == STK_FLOAT64 || t->desc.dtype == STK_FLOAT16 || t->desc.dtype == STK_BFLOAT16;
	for (size_t i = 0; i < size; i++)
		if (real && i == size - 1 ? b[i] & 0x7f : b[i]) /* -0 is 0 */
			return false;
	return true;
}

static enum stk_status truth_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct truth *a = call->args;
	*(bool *)call->out[0].data = is_zero(&call->in[0]) == a->negate;
	return STK_OK;
}

const struct stk_op_def stk__op_truth = {
	.name = "_truth",
	.doc = "Returns whether a number is not 0, for conditions.",
	.inputs = {1, 1},
	.args = truth_args,
	.args_size = sizeof(struct truth),
	.flags = STK_OP_HIDDEN,
	.infer = truth_infer,
	.run_cpu = truth_run,
};
