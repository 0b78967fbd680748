/* SPDX-License-Identifier: Apache-2.0
 * Gives bindings access to the operators' tables. */
#include "stoker/catalog.h"

#include "op/op.h"

size_t stk_op_count(void)
{
	return stk__op_total;
}

bool stk_op_info(size_t i, struct stk_op_info *out)
{
	if (!out || i >= stk__op_total)
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
		.outputs = d->output_count || (d->flags & STK_OP_OPTIONAL_OUTPUTS) ? -1
			   : d->outputs                                            ? d->outputs
										   : 1};
	out->flags = (d->reader ? STK_OP_IS_READER : 0u) | (d->flags & STK_OP_RANDOM ? STK_OP_IS_RANDOM : 0u) |
		     (d->gather ? STK_OP_IS_BATCH : 0u) | (d->flags & STK_OP_HIDDEN ? STK_OP_IS_HIDDEN : 0u) |
		     (d->flags & STK_OP_NVDEC            ? STK_OP_IS_ON_NVDEC
			     : d->lower || d->lower_jobs ? 0u
							 : STK_OP_IS_ON_CORES);
	while (stk__op_arg_at(d, out->args, &arg))
		out->args++;
	return true;
}

bool stk_op_find(const char *name, size_t *i)
{
	if (!name || !i)
		return false;
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
	if (!out || op >= stk__op_total || arg < 0 || !stk__op_arg_at(stk__ops[op], arg, &d))
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
