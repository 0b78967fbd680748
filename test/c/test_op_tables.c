/* SPDX-License-Identifier: Apache-2.0
 * Operators' tables: each table must be complete and consistent. */
#include "test.h"

#include "graph/graph.h"
#include "op/geometry/random_crop_args.h"
#include "op/geometry/resize_args.h"
#include "op/op.h"
#include "op/tensor/arithmetic.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- every table ---- */

static void test_list_is_sorted_and_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < stk__op_total; i++) {
		const struct stk_op_def *def = stk__ops[i];
		if (i && strcmp(stk__ops[i - 1]->name, def->name) >= 0)
			fail_msg("%s stands after %s in op_list.h", def->name, stk__ops[i - 1]->name);
		assert_ptr_equal(stk__op_find(def->name), def);
		if (def->alias)
			assert_ptr_equal(stk__op_find(def->alias), def);
		for (size_t k = 0; k < stk__op_total; k++)
			if (k != i && stk__ops[k]->alias)
				assert_string_not_equal(stk__ops[k]->alias, def->name);
	}
	assert_null(stk__op_find("no_such_operator"));
}

static void test_definitions_are_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < stk__op_total; i++) {
		const struct stk_op_def *d = stk__ops[i];
		const char *summary_end = d->doc ? strchr(d->doc, '\n') : NULL;
		size_t summary = summary_end ? (size_t)(summary_end - d->doc) : strlen(d->doc ? d->doc : "");
		if (summary < 10 || d->doc[summary - 1] != '.')
			fail_msg("%s: the summary is no sentence", d->name);
		if (!d->infer || !d->args)
			fail_msg("%s has no infer or no table", d->name);
		if (!stk__op_runs(d) && !d->lower && !(d->flags & (STK_OP_CALLBACK | STK_OP_FUNCTION)))
			fail_msg("%s does nothing", d->name);
		if (d->run_cpu && d->lower_jobs)
			fail_msg("%s has two bodies", d->name);
		if (d->lower && (!d->classes || (!d->layouts && !d->fetch)))
			fail_msg("%s lowers, and names no classes or layouts", d->name);
		if ((d->fetch != NULL) != (d->extent != NULL) || (d->fetch && !d->lower))
			fail_msg("%s: fetch, extent and lower go together", d->name);
		if (d->inputs.min < 0 || d->inputs.max < d->inputs.min || d->inputs.max > STK_MAX_INPUTS || d->outputs > STK_MAX_OUTPUTS)
			fail_msg("%s: impossible numbers of inputs or outputs", d->name);
		const bool opens = d->setup || (d->reader && d->reader->open);
		if (d->reader && !(d->reader->size && d->reader->order && d->reader->fingerprint && opens && d->teardown))
			fail_msg("%s: a reader needs setup or open, teardown, size, order and fingerprint", d->name);
		if ((opens && !d->teardown) || d->state_size > 4096)
			fail_msg("%s: setup without teardown, or too much state", d->name);
		bool seed = false;
		struct stk_arg_def a;
		for (int32_t k = 0; stk__op_arg_at(d, k, &a); k++)
			seed |= strcmp(a.name, "seed") == 0 && !(a.flags & STK_ACCEPTED);
		if (seed != (d->reader || (d->flags & STK_OP_RANDOM)))
			fail_msg("%s: random operators and readers have a seed, others none", d->name);
	}
}

static size_t field_size(const struct stk_arg_def *a)
{
	switch (a->type) {
	case STK_ARG_BOOL:
		return sizeof(bool);
	case STK_ARG_INT:
		return sizeof(int64_t);
	case STK_ARG_FLOAT:
		return a->flags & STK_DOUBLE ? sizeof(double) : sizeof(float);
	case STK_ARG_STRING:
		return sizeof(const char *);
	case STK_ARG_DTYPE:
	case STK_ARG_IMAGE_TYPE:
	case STK_ARG_INTERP:
		return sizeof(int32_t);
	case STK_ARG_INTS:
	case STK_ARG_FLOATS:
	case STK_ARG_STRINGS:
		return sizeof(struct stk_ints);
	}
	return 0;
}

static bool json_fits(const json_t *j, const struct stk_arg_def *a)
{
	switch (a->type) {
	case STK_ARG_BOOL:
		return json_is_boolean(j);
	case STK_ARG_INT:
	case STK_ARG_DTYPE:
	case STK_ARG_IMAGE_TYPE:
	case STK_ARG_INTERP:
		return json_is_integer(j) && json_number_value(j) >= a->min && json_number_value(j) <= a->max;
	case STK_ARG_FLOAT:
		return json_is_real(j) && json_number_value(j) >= a->min && json_number_value(j) <= a->max;
	case STK_ARG_STRING:
		return json_is_string(j);
	default:
		break;
	}
	for (size_t i = 0; i < json_array_size(j); i++) {
		const json_t *item = json_array_get(j, i);
		bool fits = a->type == STK_ARG_STRINGS ? json_is_string(item)
			    : a->type == STK_ARG_INTS
				    ? json_is_integer(item) && json_number_value(item) >= a->min && json_number_value(item) <= a->max
				    : json_is_real(item) && json_number_value(item) >= a->min && json_number_value(item) <= a->max;
		if (!fits)
			return false;
	}
	return json_is_array(j);
}

static bool chosen(const char *choices, const char *s)
{
	size_t n = strlen(s);
	for (const char *p = choices; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
		if (strncmp(p, s, n) == 0 && (p[n] == '|' || p[n] == 0))
			return true;
	return false;
}

static void check_argument(const struct stk_op_def *d, const struct stk_arg_def *a)
{
	size_t size = field_size(a);
	if (!a->doc || strlen(a->doc) < 10 || a->doc[strlen(a->doc) - 1] != '.')
		fail_msg("%s.%s: the documentation is no sentence", d->name, a->name);
	if (size == 0 || a->offset % (size > 8 ? 8 : size) || a->offset + size > d->args_size)
		fail_msg("%s.%s: offset %zu does not lie in the struct of %zu bytes", d->name, a->name, a->offset, d->args_size);
	if (a->min > a->max)
		fail_msg("%s.%s: the range is empty", d->name, a->name);
	bool number = a->type == STK_ARG_INT || a->type == STK_ARG_FLOAT || a->type == STK_ARG_INTS || a->type == STK_ARG_FLOATS;
	if (number && a->min == a->max)
		fail_msg("%s.%s: a number without a range", d->name, a->name);
	if (a->choices && a->type != STK_ARG_STRING)
		fail_msg("%s.%s: choices are for strings", d->name, a->name);
	if (a->shapes && !(a->flags & STK_PER_SAMPLE))
		fail_msg("%s.%s: only per-sample arguments make shapes unknown", d->name, a->name);
	if ((a->flags & STK_REQUIRED) && a->fallback)
		fail_msg("%s.%s: required, and has a default", d->name, a->name);
	if (!a->fallback)
		return;
	json_t *j = json_loads(a->fallback, JSON_DECODE_ANY, NULL);
	if (!j || !json_fits(j, a))
		fail_msg("%s.%s: the default %s has another type or is out of range", d->name, a->name, a->fallback);
	if (a->choices && !chosen(a->choices, json_string_value(j)))
		fail_msg("%s.%s: the default %s is not among %s", d->name, a->name, a->fallback, a->choices);
	json_decref(j);
}

static void test_arguments_are_true(void **state)
{
	(void)state;
	for (size_t i = 0; i < stk__op_total; i++) {
		const struct stk_op_def *d = stk__ops[i];
		struct stk_arg_def a, b;
		for (int32_t k = 0; stk__op_arg_at(d, k, &a); k++) {
			check_argument(d, &a);
			for (int32_t j = 0; j < k && stk__op_arg_at(d, j, &b); j++)
				if (strcmp(a.name, b.name) == 0 ||
					(a.offset < b.offset + field_size(&b) && b.offset < a.offset + field_size(&a)))
					fail_msg("%s: %s and %s share a name or a place", d->name, a.name, b.name);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list_is_sorted_and_found),
		cmocka_unit_test(test_definitions_are_whole),
		cmocka_unit_test(test_arguments_are_true),
	};
	return cmocka_run_group_tests_name("op_tables", tests, NULL, NULL);
}
