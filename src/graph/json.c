/* SPDX-License-Identifier: Apache-2.0
 * Writes and reads graphs as JSON: {"stoker_graph": 1, "operators": [{"op", "name", "where", "device": "gpu", "inputs": [[op, output]],
 * "when": [[op, output, wanted]], "args": {name: value | {"node": [op, output]} | {"float": "inf"}}}], "outputs": [[op, output]]}. Only given arguments are
 * written; the library that reads the JSON supplies its own defaults. */
#include "graph/graph.h"

#include "base/text.h"

#include <jansson.h>
#include <string.h>

enum { GRAPH_FORMAT = 1 };

/* ---- writing ---- */

static json_t *json_of_node(struct stk_node n)
{
	return json_pack("[i,i]", n.op, n.output);
}

/* Returns v as JSON. NaN and infinities, which JSON lacks, become {"float": "nan"}, "inf" or "-inf". */
static json_t *json_of_float(double v)
{
	if (isfinite(v))
		return json_real(v);
	return json_pack("{s:s}", "float", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

/* Returns the value of an argument as JSON, or NULL if memory is short or a text is not UTF-8. */
static json_t *json_of_field(const struct stk_arg_def *def, const void *args)
{
	const void *field = (const char *)args + def->offset;
	const struct stk_ints *ints = field;
	const struct stk_floats *floats = field;
	const struct stk_strings *strings = field;
	json_t *list = json_array();
	bool is_list = true, ok = list;
	switch (def->type) {
	case STK_ARG_INTS:
		for (int32_t i = 0; i < ints->count; i++)
			ok &= !json_array_append_new(list, json_integer(ints->v[i]));
		break;
	case STK_ARG_FLOATS:
		for (int32_t i = 0; i < floats->count; i++)
			ok &= !json_array_append_new(list, json_of_float((double)floats->v[i]));
		break;
	case STK_ARG_STRINGS:
		for (int32_t i = 0; i < strings->count; i++)
			ok &= !json_array_append_new(list, json_string(strings->v[i]));
		break;
	default:
		is_list = false;
	}
	if (is_list && ok)
		return list;
	json_decref(list);
	if (is_list)
		return NULL;
	switch (def->type) {
	case STK_ARG_BOOL:
		return json_boolean(*(const bool *)field);
	case STK_ARG_INT:
		return json_integer(*(const int64_t *)field);
	case STK_ARG_FLOAT:
		return json_of_float(stk__arg_float(def, field));
	case STK_ARG_STRING:
		return json_string(*(const char *const *)field);
	default:
		return json_integer(*(const int32_t *)field);
	}
}

static json_t *json_of_args(const struct stk_graph_node *n)
{
	json_t *args = json_object();
	struct stk_arg_def def;
	bool ok = true;
	for (int32_t k = 0; ok && stk__op_arg_at(n->def, k, &def); k++) {
		if (!(n->args_set >> k & 1))
			continue;
		json_t *v = NULL;
		for (int32_t i = 0; i < n->n_varying && !v; i++)
			if (strcmp(n->varying[i].def.name, def.name) == 0)
				v = json_pack("{s:o}", "node", json_of_node(n->varying[i].node));
		ok = json_object_set_new(args, def.name, v ? v : json_of_field(&def, n->args)) == 0;
	}
	if (ok)
		return args;
	json_decref(args);
	return NULL;
}

static json_t *json_of_conditions(const struct stk_graph_node *n)
{
	json_t *when = json_array();
	for (int32_t k = 0; k < n->n_when; k++)
		json_array_append_new(when, json_pack("[i,i,b]", n->when[k].predicate.op, n->when[k].predicate.output, n->when[k].wanted));
	return when;
}

enum stk_status stk_graph_serialize(const struct stk_graph *g, char **out, struct stk_error *err)
{
	if (STK_NEED(err, g, out))
		return STK_INVALID;
	json_t *ops = json_array(), *outputs = json_array();
	*out = NULL;
	bool ok = true;
	for (int32_t i = 0; i < g->n_nodes; i++) {
		const struct stk_graph_node *n = g->nodes[i];
		json_t *inputs = json_array(), *o = json_pack("{s:s}", "op", n->def->name);
		for (int32_t k = 0; k < n->n_inputs; k++)
			json_array_append_new(inputs, json_of_node(n->inputs[k]));
		if (n->named)
			ok &= !json_object_set_new(o, "name", json_string(n->name));
		if (n->where)
			ok &= !json_object_set_new(o, "where", json_string(n->where));
		if (n->device == STK_DEVICE_GPU)
			json_object_set_new(o, "device", json_string("gpu"));
		json_object_set_new(o, "inputs", inputs);
		if (n->n_when)
			ok &= !json_object_set_new(o, "when", json_of_conditions(n));
		ok &= !json_object_set_new(o, "args", json_of_args(n));
		ok &= !json_array_append_new(ops, o);
	}
	for (int32_t i = 0; i < g->n_outputs; i++)
		json_array_append_new(outputs, json_of_node(g->outputs[i]));
	json_t *all = json_pack("{s:i,s:o,s:o}", "stoker_graph", GRAPH_FORMAT, "operators", ops, "outputs", outputs);
	char *text = all && ok ? json_dumps(all, JSON_INDENT(1)) : NULL;
	json_decref(all);
	if (text)
		*out = stk__strdup(text);
	free(text);
	return *out ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a graph's JSON (or a text in it is not UTF-8)");
}

/* ---- reading ---- */

static bool node_of_json(const json_t *j, struct stk_node *out)
{
	if (json_array_size(j) != 2 || !json_is_integer(json_array_get(j, 0)) || !json_is_integer(json_array_get(j, 1)))
		return false;
	json_int_t op = json_integer_value(json_array_get(j, 0)), output = json_integer_value(json_array_get(j, 1));
	if (op < 0 || op > INT32_MAX || output < 0 || output > INT32_MAX)
		return false;
	*out = (struct stk_node){(int32_t)op, (int32_t)output};
	return true;
}

/* Sets *out to a JSON number, or to the value of one of the forms of json_of_float. Returns false for anything else. */
static bool number_of_json(const json_t *j, double *out)
{
	const char *text = json_string_value(json_object_get(j, "float"));
	*out = json_number_value(j);
	if (text)
		*out = strcmp(text, "nan") == 0 ? NAN : strcmp(text, "inf") == 0 ? HUGE_VAL : -HUGE_VAL;
	return json_is_number(j) ||
	       (text && json_object_size(j) == 1 && (strcmp(text, "nan") == 0 || strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0));
}

/* Reads a list of texts or of numbers into *out. Sets *memory to the list's memory, which the caller frees. Returns false if the list has anything else, or if
 * memory is short. */
static bool list_of_json(const char *name, const json_t *j, struct stk_arg *out, void **memory)
{
	size_t n = json_array_size(j);
	bool text = n && json_is_string(json_array_get(j, 0)), real = false;
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(j, i);
		double number;
		if (text ? !json_is_string(v) : !number_of_json(v, &number))
			return false;
		real |= !json_is_integer(v);
	}
	*memory = stk__calloc(n + 1, 8);
	for (size_t i = 0; *memory && i < n; i++) {
		const json_t *v = json_array_get(j, i);
		if (text)
			((const char **)*memory)[i] = json_string_value(v);
		else if (real)
			number_of_json(v, &((double *)*memory)[i]);
		else
			((int64_t *)*memory)[i] = json_integer_value(v);
	}
	*out = stk_arg_list(name, text ? STK_VALUE_STRINGS : real ? STK_VALUE_FLOATS : STK_VALUE_INTS, *memory, n);
	return *memory != NULL;
}

static bool arg_of_json(const char *name, const json_t *j, struct stk_arg *out, void **memory)
{
	*memory = NULL;
	struct stk_node node;
	double number;
	if (json_is_boolean(j))
		*out = stk_arg_bool(name, json_is_true(j));
	else if (json_is_integer(j))
		*out = stk_arg_int(name, json_integer_value(j));
	else if (number_of_json(j, &number))
		*out = stk_arg_float(name, number);
	else if (json_is_string(j))
		*out = stk_arg_string(name, json_string_value(j));
	else if (json_is_array(j))
		return list_of_json(name, j, out, memory);
	else if (json_is_object(j) && node_of_json(json_object_get(j, "node"), &node))
		*out = stk_arg_node(name, node);
	else
		return false;
	return true;
}

enum { MAX_ARGS = 64 };

struct read_op {
	struct stk_node inputs[STK_MAX_INPUTS];
	struct stk_arg args[MAX_ARGS];
	void *memory[MAX_ARGS];
	struct stk_condition *when;
	size_t n_inputs, n_args, n_when;
};

/* Reads the conditions of operator number `index` into op->when, which the caller frees even after a failure. */
static enum stk_status read_conditions(const json_t *when, struct read_op *op, size_t index, struct stk_error *err)
{
	size_t n = json_array_size(when);
	op->when = stk__calloc(n + 1, sizeof *op->when);
	if (!op->when)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the conditions of operator %zu", index);
	for (; op->n_when < n; op->n_when++) {
		const json_t *j = json_array_get(when, op->n_when), *expected = json_array_get(j, 2);
		json_t *node = json_array_size(j) == 3 && json_is_boolean(expected)
				       ? json_pack("[O,O]", json_array_get(j, 0), json_array_get(j, 1))
				       : NULL;
		bool ok = node && node_of_json(node, &op->when[op->n_when].predicate);
		json_decref(node);
		if (!ok)
			return stk__fail(err, STK_INVALID, "condition %zu of operator %zu of the JSON is no [operator, output, wanted]",
				op->n_when, index);
		op->when[op->n_when].wanted = json_is_true(expected);
	}
	return STK_OK;
}

static enum stk_status read_op(const json_t *j, struct read_op *op, size_t index, struct stk_error *err)
{
	const json_t *inputs = json_object_get(j, "inputs"), *when = json_object_get(j, "when");
	json_t *args = json_object_get(j, "args"), *v;
	const char *name;
	if (!json_is_string(json_object_get(j, "op")) || (inputs && !json_is_array(inputs)) || (args && !json_is_object(args)) ||
		(when && !json_is_array(when)))
		return stk__fail(err, STK_INVALID,
			"operator %zu of the JSON needs \"op\", a list \"inputs\" and an object \"args\"; \"when\" is a list", index);
	if (json_array_size(inputs) > STK_MAX_INPUTS || json_object_size(args) > MAX_ARGS)
		return stk__fail(err, STK_LIMIT, "operator %zu of the JSON has too many inputs or arguments", index);
	for (; op->n_inputs < json_array_size(inputs); op->n_inputs++)
		if (!node_of_json(json_array_get(inputs, op->n_inputs), &op->inputs[op->n_inputs]))
			return stk__fail(
				err, STK_INVALID, "input %zu of operator %zu of the JSON is no [operator, output]", op->n_inputs, index);
	json_object_foreach (args, name, v) {
		if (!arg_of_json(name, v, &op->args[op->n_args], &op->memory[op->n_args]))
			return stk__fail(
				err, STK_INVALID, "argument \"%s\" of operator %zu of the JSON has a value of no known kind", name, index);
		op->n_args++;
	}
	return when ? read_conditions(when, op, index, err) : STK_OK;
}

static enum stk_status add_op(struct stk_graph *g, const json_t *j, size_t index, struct stk_error *err)
{
	struct read_op op = {.n_args = 0};
	struct stk_node out;
	enum stk_status s = read_op(j, &op, index, err);
	const char *device = json_string_value(json_object_get(j, "device"));
	const struct stk_graph_options o = {.name = json_string_value(json_object_get(j, "name")),
		.where = json_string_value(json_object_get(j, "where")),
		.device = !device                      ? STK_DEVICE_CPU
			  : strcmp(device, "gpu") == 0 ? STK_DEVICE_GPU
						       : STK_DEVICE_ANY,
		.when = op.when,
		.n_when = op.n_when};
	if (s == STK_OK)
		s = stk_graph_add(
			g, json_string_value(json_object_get(j, "op")), op.inputs, op.n_inputs, op.args, op.n_args, &o, &out, err);
	for (size_t i = 0; i < MAX_ARGS; i++)
		stk__free(op.memory[i]);
	stk__free(op.when);
	return s;
}

static enum stk_status read_graph(struct stk_graph *g, const json_t *j, struct stk_error *err)
{
	const json_t *ops = json_object_get(j, "operators"), *outputs = json_object_get(j, "outputs");
	enum stk_status s = STK_OK;
	if (json_integer_value(json_object_get(j, "stoker_graph")) != GRAPH_FORMAT || !json_is_array(ops) || !json_is_array(outputs))
		return stk__fail(err, STK_INVALID, "the JSON is no pipeline: it needs \"stoker_graph\": %d, \"operators\" and \"outputs\"",
			GRAPH_FORMAT);
	for (size_t i = 0; i < json_array_size(ops) && s == STK_OK; i++)
		s = add_op(g, json_array_get(ops, i), i, err);
	for (size_t i = 0; i < json_array_size(outputs) && s == STK_OK; i++) {
		struct stk_node n;
		if (!node_of_json(json_array_get(outputs, i), &n))
			s = stk__fail(err, STK_INVALID, "output %zu of the JSON is no [operator, output]", i);
		else
			s = stk_graph_output(g, n, err);
	}
	return s;
}

enum stk_status stk_graph_deserialize(const char *text, size_t size, struct stk_graph **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	json_error_t je;
	*out = NULL;
	if (STK_NEED(err, text))
		return STK_INVALID;
	size_t mark = stk__byte_order_mark(text, size);
	json_t *j = json_loadb(text + mark, size - mark, JSON_REJECT_DUPLICATES, &je);
	if (!j)
		return stk__fail(
			err, STK_INVALID, "the pipeline's JSON can't be read: line %d, column %d: %s", je.line, je.column, je.text);
	struct stk_graph *g = NULL;
	enum stk_status s = stk_graph_create(&g, err);
	if (s == STK_OK)
		s = read_graph(g, j, err);
	json_decref(j);
	if (s) {
		stk_graph_destroy(g);
		g = NULL;
	}
	*out = g;
	return s;
}
