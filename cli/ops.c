/* SPDX-License-Identifier: Apache-2.0
 * stoker ops: prints the operators and their arguments from the tables that the library uses. */
#include "command.h"
#include "output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns whether an argument is a number. Only numbers have ranges that are worth printing. */
static bool is_number(const struct stk_arg_info *arg)
{
	return arg->kind == STK_ARG_INT || arg->kind == STK_ARG_FLOAT || arg->kind == STK_ARG_INTS || arg->kind == STK_ARG_FLOATS;
}

static json_t *arg_json(const struct stk_arg_info *arg)
{
	json_t *o = json_object();
	put_text(o, "name", arg->name);
	put_text(o, "type", arg->type);
	put_text(o, "doc", arg->doc);
	if (arg->default_text) {
		json_t *value = json_loads(arg->default_text, JSON_DECODE_ANY, NULL);
		json_object_set_new(o, "default", value ? value : json_string(arg->default_text));
	}
	if (arg->choices)
		put_text(o, "choices", arg->choices);
	if (is_number(arg) && arg->min > -HUGE_VAL)
		put_real(o, "min", arg->min);
	if (is_number(arg) && arg->max < HUGE_VAL)
		put_real(o, "max", arg->max);
	put_bool(o, "infinite", arg->flags & STK_INFINITE);
	put_bool(o, "nan", arg->flags & STK_NAN);
	put_bool(o, "required", arg->flags & STK_REQUIRED);
	put_bool(o, "per_sample", arg->flags & STK_PER_SAMPLE);
	put_bool(o, "per_frame", arg->flags & STK_PER_FRAME);
	put_bool(o, "scalar_ok", arg->flags & STK_SCALAR_OK);
	put_bool(o, "accepted_only", arg->flags & STK_ACCEPTED);
	return o;
}

static json_t *op_json(size_t index, const struct stk_op_info *op)
{
	json_t *o = json_object(), *args = json_array();
	put_text(o, "name", op->name);
	if (op->alias)
		put_text(o, "alias", op->alias);
	put_text(o, "doc", op->doc);
	put_text(o, "layouts", op->layouts);
	if (op->tolerance)
		put_text(o, "tolerance", op->tolerance);
	put_int(o, "min_inputs", op->min_inputs);
	put_int(o, "max_inputs", op->max_inputs);
	put_int(o, "outputs", op->outputs);
	put_bool(o, "reader", op->flags & STK_OP_IS_READER);
	put_bool(o, "random", op->flags & STK_OP_IS_RANDOM);
	put_bool(o, "batch", op->flags & STK_OP_IS_BATCH);
	put_bool(o, "hidden", op->flags & STK_OP_IS_HIDDEN);
	put_bool(o, "on_cores", op->flags & STK_OP_IS_ON_CORES);
	put_bool(o, "on_nvdec", op->flags & STK_OP_IS_ON_NVDEC);
	struct stk_arg_info arg;
	for (int32_t i = 0; stk_op_arg(index, i, &arg); i++)
		json_array_append_new(args, arg_json(&arg));
	json_object_set_new(o, "args", args);
	return o;
}

static void print_op(size_t index, const struct stk_op_info *op)
{
	struct stk_arg_info arg;
	printf("%s: %s\n", op->name, op->doc);
	if (op->alias)
		printf("also known as %s\n", op->alias);
	printf("inputs: %d", op->min_inputs);
	if (op->max_inputs != op->min_inputs)
		printf(" to %d", op->max_inputs);
	printf("%s%s%s%s\n", op->layouts[0] ? "; layouts: " : "", op->layouts, op->flags & STK_OP_IS_RANDOM ? "; random" : "",
		op->flags & STK_OP_IS_BATCH ? "; may need the whole batch" : "");
	if (op->tolerance)
		printf("tolerance: %s\n", op->tolerance);
	for (int32_t i = 0; stk_op_arg(index, i, &arg); i++) {
		printf("  %-28s %s%s", arg.name, arg.type,
			arg.flags & STK_PER_FRAME    ? ", also one a sample or frame"
			: arg.flags & STK_PER_SAMPLE ? ", also one a sample"
						     : "");
		if (arg.flags & STK_REQUIRED)
			printf(", required");
		else if (arg.default_text)
			printf(", default %s", arg.default_text);
		if (is_number(&arg) && (arg.min > -HUGE_VAL || arg.max < HUGE_VAL))
			printf(", %.10g to %.10g", arg.min, arg.max);
		printf("\n      %s%s%s\n", arg.doc, arg.choices ? " One of " : "", arg.choices ? arg.choices : "");
	}
}

static void print_list(void)
{
	struct stk_op_info op;
	for (size_t i = 0; stk_op_info(i, &op); i++) {
		if (op.flags & STK_OP_IS_HIDDEN)
			continue;
		printf("%-32s %.*s\n", op.name, (int)strcspn(op.doc, "\n"), op.doc);
	}
}

static int run_ops(const struct settings *s)
{
	struct stk_op_info op;
	size_t index;
	if (s->arg_count == 1) {
		if (!stk_op_find(s->args[0], &index)) {
			char text[512];
			stk_op_explain_missing(s->args[0], text, sizeof(text));
			return fail_text("ops", "%s", text);
		}
		stk_op_info(index, &op);
		if (s->json)
			return print_json(op_json(index, &op));
		print_op(index, &op);
		return EXIT_FINE;
	}
	if (!s->json) {
		print_list();
		return EXIT_FINE;
	}
	json_t *all = json_array();
	for (size_t i = 0; stk_op_info(i, &op); i++)
		json_array_append_new(all, op_json(i, &op));
	return print_json(all);
}

static const struct option options[] = {OPTION_JSON, {0}};

const struct command command_ops = {
	.name = "ops",
	.summary = "the operators and their arguments",
	.usage = "[NAME] [--json]",
	.details = "Lists the operators, or describes one: inputs, layouts, arguments with types, defaults and ranges.",
	.example = "stoker ops resize",
	.options = options,
	.max_args = 1,
	.run = run_ops,
};
