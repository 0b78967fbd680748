/* SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

#include <string.h>

#define X(symbol) extern const struct stk_op_def stk__op_##symbol;
#include "op/op_list.h"
#undef X

const struct stk_op_def *const stk__ops[] = {
#define X(symbol) &stk__op_##symbol,
#include "op/op_list.h"
#undef X
};

const size_t stk__op_total = sizeof stk__ops / sizeof *stk__ops;

const struct stk_op_def *stk__op_find(const char *name)
{
	for (size_t i = 0; i < stk__op_total; i++)
		if (strcmp(stk__ops[i]->name, name) == 0 || (stk__ops[i]->alias && strcmp(stk__ops[i]->alias, name) == 0))
			return stk__ops[i];
	return NULL;
}

unsigned stk__op_classes(const struct stk_op_def *def, const void *args, const struct stk_desc *in)
{
	if (!def->lower)
		return STK_CLASS_NEVER;
	return def->classify ? def->classify(args, in) : def->classes;
}

/* Sets *out to entry *k of a table, in which the entries of a group count one by one, and adds `base` to the offset of *out. If the table has at most *k
 * entries, subtracts their number from *k and returns false. */
static bool arg_at(const struct stk_arg_def *table, size_t base, int32_t *k, struct stk_arg_def *out)
{
	for (; table && table->name; table++) {
		if (table->group) {
			if (arg_at(table->group, base + table->offset, k, out))
				return true;
		} else if ((*k)-- == 0) {
			*out = *table;
			out->offset += base;
			return true;
		}
	}
	return false;
}

bool stk__op_arg_at(const struct stk_op_def *def, int32_t k, struct stk_arg_def *out)
{
	return k >= 0 && arg_at(def->args, 0, &k, out);
}
