/* SPDX-License-Identifier: Apache-2.0
 * lookup_table: maps values by a table. */
#include "kernel/convert/convert.h"
#include "kernel/pointwise/pointwise.h"
#include "op/dims.h"

#include <string.h>

struct lookup_table {
	struct stk_ints keys;
	struct stk_floats values;
	float default_value;
	int32_t dtype;
};

enum { MOST = 65535 };

static const struct stk_arg_def lookup_table_args[] = {
	STK_ARG(struct lookup_table, keys, STK_ARG_INTS, "[]", (0, MOST), STK_SCALAR_OK,
		"Values of the input that are in the table, each from 0 to 65535. If a key comes twice, the last one counts."),
	STK_ARG(struct lookup_table, values, STK_ARG_FLOATS, "[]", STK_FREE, STK_SCALAR_OK | STK_INFINITE | STK_NAN,
		"The output for each key."),
	STK_ARG(struct lookup_table, default_value, STK_ARG_FLOAT, "0.0", STK_FREE, STK_INFINITE | STK_NAN,
		"The output for all other values."),
	STK_ARG(struct lookup_table, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output, to which values and default_value are rounded and saturated."),
	STK_ARG_END,
};

/* The table, of elements of the output's type. entries: for values 0 .. count - 1; other: for all other values; bytes: size of `entries` in bytes. */
struct table {
	uint32_t count;
	size_t bytes;
	uint8_t other[8];
	_Alignas(8) uint8_t entries[];
};

static enum stk_status lookup_table_setup(const void *args, void **shared, struct stk_error *err)
{
	const struct lookup_table *a = args;
	int64_t largest = -1;
	size_t size = stk_dtype_size((enum stk_dtype)a->dtype);
	if (a->keys.count != a->values.count)
		return stk__fail(
			err, STK_INVALID, "there are %d keys and %d values: give one value for each key", a->keys.count, a->values.count);
	for (int32_t i = 0; i < a->keys.count; i++)
		largest = a->keys.v[i] > largest ? a->keys.v[i] : largest;
	struct table *t = stk__calloc(1, sizeof *t + (size_t)(largest + 1) * size);
	if (!t)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a table of %lld entries", (long long)largest + 1);
	t->count = (uint32_t)(largest + 1);
	t->bytes = t->count * size;
	stk__convert(t->other, (enum stk_dtype)a->dtype, &a->default_value, STK_FLOAT, 1);
	for (uint32_t k = 0; k < t->count; k++)
		memcpy(t->entries + k * size, t->other, size);
	for (int32_t i = 0; i < a->keys.count; i++)
		stk__convert(t->entries + (size_t)a->keys.v[i] * size, (enum stk_dtype)a->dtype, &a->values.v[i], STK_FLOAT, 1);
	*shared = t;
	return STK_OK;
}

static enum stk_status lookup_table_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct lookup_table *a = call->args;
	enum stk_dtype in = call->in[0].desc.dtype;
	call->out[0].desc = call->in[0].desc;
	call->out[0].desc.dtype = (enum stk_dtype)a->dtype;
	if (in != STK_NO_DTYPE && (!stk__dtype_whole(in) || in == STK_BOOL))
		return stk__fail(err, STK_UNSUPPORTED, "only integers can be looked up, not %s: cast the input, which rounds it",
			stk_dtype_name(in));
	return STK_OK;
}

static enum stk_status lookup_table_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct table *t = call->shared;
	struct stk_pointwise p = {.op = STK_POINTWISE_LOOKUP, .lookup = {.entries = t->count}};
	memcpy(p.lookup.other, t->other, sizeof t->other);
	return stk__job_pointwise(jobs, &p, t->entries, t->bytes, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_lookup_table = {
	.name = "lookup_table",
	.doc = "Replaces integers by the values of a table.\n\n"
	       "The input has any shape and any integer type. Values that are not among the keys become default_value.",
	.inputs = {1, 1},
	.args = lookup_table_args,
	.args_size = sizeof(struct lookup_table),
	.setup = lookup_table_setup,
	.teardown = stk__free,
	.infer = lookup_table_infer,
	.lower_jobs = lookup_table_lower_jobs,
};
