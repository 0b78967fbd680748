/* SPDX-License-Identifier: Apache-2.0
 * random.uniform: numbers from a range or from a list. */
#include "kernel/convert/convert.h"
#include "op/random/random.h"

#include <string.h>

struct uniform {
	struct stk_floats range, values;
	struct stk_random_args random;
};

static const struct stk_arg_def uniform_args[] = {
	STK_ARG(struct uniform, range, STK_ARG_FLOATS, "[-1.0, 1.0]", STK_FREE, STK_PER_SAMPLE,
		"Lower and upper bound; the upper one is never drawn."),
	STK_ARG(struct uniform, values, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK | STK_INFINITE | STK_NAN,
		"Draws from these values instead of a range, with equal chances."),
	STK_ARG_GROUP(struct uniform, random, stk__random_group),
	STK_ARG_END,
};

static enum stk_status uniform_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct uniform *a = call->args;
	if (a->values.count == 0)
		return stk__fail(err, STK_INVALID, "values is empty: there is nothing to draw from");
	if (a->values.count < 0 && (a->range.count != 2 || a->range.v[0] > a->range.v[1]))
		return stk__fail(err, STK_INVALID, "range takes a lower and an upper bound, in this order");
	return stk__random_infer(call, &a->random, STK_FLOAT, err);
}

/* Replaces draws that were rounded up to `end`, which is not part of the range, by the next lower value of the output's float type. */
static void exclude_end(const struct stk_tensor *out, int64_t n, float end)
{
	enum stk_dtype dtype = out->desc.dtype;
	size_t size = stk_dtype_size(dtype);
	if (dtype != STK_FLOAT && dtype != STK_FLOAT16 && dtype != STK_BFLOAT16)
		return;
	for (int64_t i = 0; i < n; i++) {
		char *at = (char *)out->data + (size_t)i * size;
		float value;
		uint32_t bits = 0;
		stk__convert(&value, STK_FLOAT, at, dtype, 1);
		if (value < end)
			continue;
		memcpy(&bits, at, size); /* floats are stored as sign and magnitude, in little endian */
		uint32_t sign = 1u << (8 * size - 1);
		bits = bits & sign ? bits + 1 : bits ? bits - 1 : sign | 1;
		memcpy(at, &bits, size);
	}
}

static enum stk_status uniform_run(const struct stk_call *call, struct stk_error *err)
{
	const struct uniform *a = call->args;
	struct stk_random r = call->random;
	int64_t n = stk_desc_elements(&call->out[0].desc);
	double *draws = stk__arena_take(call->tools->arena, (size_t)n * sizeof *draws);
	if (!draws)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld draws", (long long)n);
	for (int64_t i = 0; i < n; i++) {
		if (a->values.count > 0)
			draws[i] = a->values.v[stk__random_below(&r, (uint32_t)a->values.count)];
		else
			draws[i] = a->range.v[0] + ((double)a->range.v[1] - a->range.v[0]) * (double)stk__random_float(&r);
	}
	stk__random_store(&call->out[0], draws, n);
	if (a->values.count < 0 && a->range.v[0] < a->range.v[1])
		exclude_end(&call->out[0], n, a->range.v[1]);
	return STK_OK;
}

const struct stk_op_def stk__op_random_uniform = {
	.name = "random.uniform",
	.alias = "uniform",
	.doc = "Draws numbers from a range, or from a list of values.\n\n"
	       "The default output is one float32 a sample. With an integer dtype the draws are rounded, so that the ends of the range "
	       "have half the chance of the others.",
	.inputs = {0, 1},
	.args = uniform_args,
	.args_size = sizeof(struct uniform),
	.flags = STK_OP_RANDOM | STK_OP_CLONED,
	.infer = uniform_infer,
	.run_cpu = uniform_run,
};
