/* SPDX-License-Identifier: Apache-2.0
 * element_condition: evaluates a condition on the values of each object. */
#include "op/objects/objects.h"

#include "kernel/convert/convert.h"

enum { CODE_INPUT, CODE_CONSTANT, CODE_NEGATE, CODE_NOT, CODE_AND, CODE_OR, CODE_EQ, CODE_NE, CODE_LT, CODE_GT, CODE_LE, CODE_GE, CODES };

struct element_condition {
	struct stk_ints program;
	struct stk_floats constants;
};

static const struct stk_arg_def element_condition_args[] = {
	STK_ARG(struct element_condition, program, STK_ARG_INTS, NULL, (0, 0x1p20), STK_REQUIRED | STK_SCALAR_OK,
		"The condition in reverse Polish notation: pairs of a code and a number. 0: the value of the input with this number; 1: the "
		"constant with this number; 2: negative; 3: not; 4: and; 5: or; 6 to 11: ==, !=, <, >, <=, >=. Codes from 2 on take the "
		"number 0."),
	STK_ARG(struct element_condition, constants, STK_ARG_FLOATS, "[]", STK_FREE, STK_SCALAR_OK | STK_INFINITE,
		"Constants that the program refers to."),
	STK_ARG_END,
};

/* Returns how many values a code takes from the stack; each code pushes one value. */
static int32_t operands(int64_t code)
{
	return code <= CODE_CONSTANT ? 0 : code <= CODE_NOT ? 1 : 2;
}

static enum stk_status check_program(const struct element_condition *a, int32_t inputs, struct stk_error *err)
{
	int32_t depth = 0;
	for (int32_t i = 0; i + 1 < a->program.count; i += 2) {
		int64_t code = a->program.v[i], at = a->program.v[i + 1];
		if (code >= CODES)
			return stk__fail(err, STK_INVALID, "program: %lld at %d is not a code", (long long)code, i);
		if ((code == CODE_INPUT && at >= inputs) || (code == CODE_CONSTANT && at >= a->constants.count))
			return stk__fail(
				err, STK_INVALID, "program: there is no %s %lld", code == CODE_INPUT ? "input" : "constant", (long long)at);
		if (depth < operands(code))
			return stk__fail(err, STK_INVALID, "program: the code at %d lacks an operand", i);
		depth += 1 - operands(code);
	}
	if (a->program.count % 2 || depth != 1)
		return stk__fail(err, STK_INVALID, "program is not one condition: it leaves %d values", depth);
	return STK_OK;
}

static enum stk_status element_condition_infer(const struct stk_call *call, struct stk_error *err)
{
	int64_t n = -1;
	enum stk_status s = check_program(call->args, call->n_in, err);
	for (int32_t k = 0; k < call->n_in && s == STK_OK; k++) {
		int64_t count;
		if ((s = stk__objects_column(&call->in[k].desc, "values", &count, err)) || (s = stk__objects_same("values", count, n, err)))
			break;
		n = count >= 0 ? count : n;
	}
	call->out[0].desc = (struct stk_desc){STK_BOOL, 1, {n}, ""};
	return s;
}

#define EACH(expression)                                                                                                                   \
	for (int64_t i = 0; i < n; i++)                                                                                                    \
		a[i] = (float)(expression);                                                                                                \
	break

/* Applies the operation `code` to n objects and stores the results in a. The operands of object i are a[i] and b[i]; an operation with one operand ignores
 * b. */
static void apply(int64_t code, float *restrict a, const float *restrict b, int64_t n)
{
	switch (code) {
	case CODE_NEGATE:
		EACH(-a[i]);
	case CODE_NOT:
		EACH(a[i] == 0);
	case CODE_AND:
		EACH((a[i] != 0) & (b[i] != 0));
	case CODE_OR:
		EACH((a[i] != 0) | (b[i] != 0));
	case CODE_EQ:
		EACH(a[i] == b[i]);
	case CODE_NE:
		EACH(a[i] != b[i]);
	case CODE_LT:
		EACH(a[i] < b[i]);
	case CODE_GT:
		EACH(a[i] > b[i]);
	case CODE_LE:
		EACH(a[i] <= b[i]);
	default:
		EACH(a[i] >= b[i]);
	}
}

/* Evaluates the condition, which is in postfix notation. Each entry of the stack is an array with one value for each object. */
static enum stk_status element_condition_run(const struct stk_call *call, struct stk_error *err)
{
	const struct element_condition *a = call->args;
	int64_t n = call->out[0].desc.shape[0];
	size_t row = ((size_t)n + 15) / 16 * 16;
	float *stack = stk__arena_take(call->tools->arena, ((size_t)a->program.count / 2 + 1) * row * sizeof *stack), *top = stack;
	if (!stack)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld objects", (long long)n);
	for (int32_t p = 0; p < a->program.count; p += 2) {
		int64_t code = a->program.v[p], at = a->program.v[p + 1];
		if (code == CODE_INPUT) {
			stk__convert(top, STK_FLOAT, call->in[at].data, call->in[at].desc.dtype, n);
			top += row;
		} else if (code == CODE_CONSTANT) {
			for (int64_t i = 0; i < n; i++)
				top[i] = a->constants.v[at];
			top += row;
		} else {
			top -= (size_t)operands(code) * row;
			apply(code, top, top + row, n);
			top += row;
		}
	}
	uint8_t *out = call->out[0].data;
	for (int64_t i = 0; i < n; i++)
		out[i] = stack[i] != 0;
	return STK_OK;
}

const struct stk_op_def stk__op_element_condition = {
	.name = "element_condition",
	.doc = "Evaluates a condition on the values of each object.\n\n"
	       "Inputs are vectors with one value for each object; tensors of more dims count as vectors if all extents but one are 1. "
	       "The output is one bool for each object. Values are compared as float32; and, or and not take values other than 0 as "
	       "true.",
	.inputs = {1, STK_MAX_INPUTS},
	.host_inputs = ~0ull,
	.args = element_condition_args,
	.args_size = sizeof(struct element_condition),
	.infer = element_condition_infer,
	.run_cpu = element_condition_run,
};
