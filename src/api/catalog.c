/* SPDX-License-Identifier: Apache-2.0
 * The operators' tables, shown to bindings. */
#include "stoker/catalog.h"

#include "base/text.h"
#include "op/op.h"

#include <stdio.h>
#include <string.h>

size_t stk_op_count(void)
{
	return stk__op_total;
}

bool stk_op_info(size_t i, struct stk_op_info *out)
{
	if (i >= stk__op_total)
		return false;
	const struct stk_op_def *d = stk__ops[i];
	struct stk_arg_def arg;
	*out = (struct stk_op_info){.name = d->name,
		.alias = d->alias,
		.doc = d->doc,
		.layouts = d->layouts ? d->layouts : "",
		.tolerance = d->tolerance,
		.min_inputs = d->inputs.min,
		.max_inputs = d->inputs.max,
		.outputs = d->output_count ? -1
			   : d->outputs    ? d->outputs
					   : 1};
	out->flags = (d->reader ? STK_OP_IS_READER : 0u) | (d->flags & STK_OP_RANDOM ? STK_OP_IS_RANDOM : 0u) |
		     (d->gather ? STK_OP_IS_BATCH : 0u) | (d->flags & STK_OP_HIDDEN ? STK_OP_IS_HIDDEN : 0u);
	while (stk__op_arg_at(d, out->args, &arg))
		out->args++;
	return true;
}

bool stk_op_find(const char *name, size_t *i)
{
	const struct stk_op_def *d = stk__op_find(name);
	for (*i = 0; d && stk__ops[*i] != d;)
		++*i;
	return d != NULL;
}

bool stk_op_arg(size_t op, int32_t arg, struct stk_arg_info *out)
{
	static const char *const types[] = {
		"bool", "int", "float", "str", "DType", "ImageType", "Interp", "list[int]", "list[float]", "list[str]"};
	struct stk_arg_def d;
	if (op >= stk__op_total || !stk__op_arg_at(stk__ops[op], arg, &d))
		return false;
	*out = (struct stk_arg_info){.name = d.name,
		.type = types[d.type],
		.kind = d.type,
		.flags = d.flags,
		.default_text = d.fallback,
		.choices = d.choices,
		.min = d.min,
		.max = d.max,
		.doc = d.doc};
	return true;
}

static const char *const dali_names[] = {
#include "op/dali_names.h"
};

static const char *next_name(const void *from, size_t i)
{
	(void)from;
	if (i < stk__op_total)
		return stk__ops[i]->flags & STK_OP_HIDDEN ? "" : stk__ops[i]->name;
	return NULL;
}

void stk_op_explain_missing(const char *name, char *text, size_t capacity)
{
	const char *near = stk__nearest(name, next_name, NULL);
	for (size_t i = 0; i < sizeof dali_names / sizeof *dali_names; i++)
		if (strcmp(dali_names[i], name) == 0) {
			snprintf(text, capacity, "%s exists in DALI, not in Stoker yet%s%s", name, near ? "; nearest: " : "",
				near ? near : "");
			return;
		}
	if (near)
		snprintf(text, capacity, "there is no operator \"%s\"; did you mean \"%s\"?", name, near);
	else
		snprintf(text, capacity, "there is no operator \"%s\"; `stoker ops` lists them", name);
}
