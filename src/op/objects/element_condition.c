/* SPDX-License-Identifier: Apache-2.0
 * element_condition: a condition on the values of objects, for each object. */
#include "op/objects/objects.h"

#include <stdio.h>

enum { CODE_INPUT, CODE_CONSTANT, CODE_NEGATE, CODE_NOT, CODE_AND, CODE_OR, CODE_EQ, CODE_NE, CODE_LT, CODE_GT, CODE_LE, CODE_GE, CODES };
enum { MAX_DEPTH = 64 };

struct element_condition {
	struct stk_ints program;
	struct stk_floats constants;
};

static const struct stk_arg_def element_condition_args[] = {
	STK_ARG(struct element_condition, program, STK_ARG_INTS, NULL, (0, 0x1p20), STK_REQUIRED | STK_SCALAR_OK,
		"The condition in reverse Polish notation: pairs of a code and a number. 0: the value of this input; 1: this constant; 2: negative; 3: not; "
		"4: and; 5: or; 6 to 11: ==, !=, <, >, <=, >=, whose number is 0."),
	STK_ARG(struct element_condition, constants, STK_ARG_FLOATS, "[]", STK_FREE, STK_SCALAR_OK, "Constants that the program names."),
	STK_ARG_END,
};

/* What a code takes from the stack; each gives one value. */
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
		if (depth > MAX_DEPTH)
			return stk__fail(err, STK_LIMIT, "program: more than %d values wait for an operator", MAX_DEPTH);
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
		char what[32];
		int64_t count;
		snprintf(what, sizeof what, "values of input %d", k);
		if ((s = stk__objects_column(&call->in[k].desc, what, &count, err)) || (s = stk__objects_same(what, count, n, err)))
			break;
		n = count >= 0 ? count : n;
	}
	call->out[0].desc = (struct stk_desc){STK_BOOL, 1, {n}, ""};
	return s;
}

static float apply(int64_t code, float a, float b)
{
	switch (code) {
	case CODE_NEGATE:
		return -a;
	case CODE_NOT:
		return a == 0;
	case CODE_AND:
		return a != 0 && b != 0;
	case CODE_OR:
		return a != 0 || b != 0;
	case CODE_EQ:
		return a == b;
	case CODE_NE:
		return a != b;
	case CODE_LT:
		return a < b;
	case CODE_GT:
		return a > b;
	case CODE_LE:
		return a <= b;
	default:
		return a >= b;
	}
}

static float evaluate(const struct element_condition *a, const double *const *in, int64_t i)
{
	float stack[MAX_DEPTH + 1] = {0};
	int32_t top = 0;
	for (int32_t p = 0; p < a->program.count; p += 2) {
		int64_t code = a->program.v[p], at = a->program.v[p + 1];
		if (code == CODE_INPUT) {
			stack[top++] = (float)in[at][i];
		} else if (code == CODE_CONSTANT) {
			stack[top++] = a->constants.v[at];
		} else {
			top -= operands(code);
			stack[top] = apply(code, stack[top], stack[top + 1]);
			top++;
		}
	}
	return stack[0];
}

static enum stk_status element_condition_run(const struct stk_call *call, struct stk_error *err)
{
	const double **in = stk__arena_take(call->tools->arena, (size_t)call->n_in * sizeof *in);
	if (!in)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d inputs", call->n_in);
	enum stk_status s;
	for (int32_t k = 0; k < call->n_in; k++)
		if ((s = stk__objects_values(call, k, &in[k], err)))
			return s;
	uint8_t *out = call->out[0].data;
	for (int64_t i = 0; i < call->out[0].desc.shape[0]; i++)
		out[i] = evaluate(call->args, in, i) != 0;
	return STK_OK;
}

const struct stk_op_def stk__op_element_condition = {
	.name = "element_condition",
	.doc = "Evaluates a condition on the values of objects, for each object.\n\n"
	       "Inputs are vectors with one value for each object; tensors of more dims, all but one of extent 1, are taken as such. The output has a bool for each "
	       "object. Values are compared as float32; in and, or, not they are true where they are not 0.",
	.inputs = {1, STK_MAX_INPUTS},
	.host_inputs = ~0ull,
	.args = element_condition_args,
	.args_size = sizeof(struct element_condition),
	.infer = element_condition_infer,
	.run_cpu = element_condition_run,
};
