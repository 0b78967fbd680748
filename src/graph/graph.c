/* SPDX-License-Identifier: Apache-2.0
 * Builds graphs: adds operators, outputs and callbacks, and checks their names, inputs and arguments. */
#include "graph/graph.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum stk_status stk_graph_create(struct stk_graph **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	*out = stk__calloc(1, sizeof **out);
	if (!*out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a graph");
	(*out)->refs = 1;
	return STK_OK;
}

struct stk_graph *stk__graph_ref(struct stk_graph *g)
{
	atomic_fetch_add(&g->refs, 1);
	return g;
}

void stk_graph_destroy(struct stk_graph *g)
{
	if (!g || atomic_fetch_sub(&g->refs, 1) > 1)
		return;
	for (int32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->has_source && g->nodes[i]->source.destroy)
			g->nodes[i]->source.destroy(g->nodes[i]->source.user);
	for (size_t i = 0; i < g->n_blocks; i++)
		stk__free(g->blocks[i]);
	stk__free(g->blocks);
	stk__free(g->nodes);
	stk__free(g->outputs);
	stk__free(g);
}

bool stk__node_seed(const struct stk_graph_node *node, uint64_t *seed)
{
	struct stk_arg_def def;
	for (int32_t k = 0; stk__op_arg_at(node->def, k, &def); k++)
		if (def.type == STK_ARG_INT && strcmp(def.name, "seed") == 0) {
			int64_t v = *(const int64_t *)((const char *)node->args + def.offset);
			*seed = (uint64_t)v;
			return stk__int_given(v) && v >= 0;
		}
	return false;
}

static enum stk_status check_node(const struct stk_graph *g, struct stk_node n, const char *what, struct stk_error *err)
{
	if (n.op < 0 || n.op >= g->n_nodes || n.output < 0 || n.output >= g->nodes[n.op]->n_outputs)
		return stk__fail(err, STK_INVALID, "%s is not a value of this graph (operator %d, output %d)", what, n.op, n.output);
	return STK_OK;
}

static const char *next_arg_name(const void *from, size_t i)
{
	static const char *const none = NULL;
	struct stk_arg_def def;
	return stk__op_arg_at(from, (int32_t)i, &def) ? def.name : none;
}

static enum stk_status find_arg(const struct stk_op_def *def, const char *name, int32_t *k, struct stk_arg_def *out, struct stk_error *err)
{
	for (*k = 0; stk__op_arg_at(def, *k, out); ++*k)
		if (strcmp(out->name, name) == 0)
			return STK_OK;
	const char *suggestion = stk__nearest(name, next_arg_name, def);
	return stk__fail(err, STK_INVALID, "%s has no argument \"%s\"%s%s%s", def->name, name, suggestion ? "; did you mean \"" : "",
		suggestion ? suggestion : "", suggestion ? "\"?" : "");
}

static enum stk_status set_varying(
	struct stk_graph *g, struct stk_graph_node *node, const struct stk_arg_def *def, struct stk_node value, struct stk_error *err)
{
	if (!(def->flags & STK_PER_SAMPLE))
		return stk__fail(err, STK_INVALID, "%s: argument \"%s\" is one value for all samples; it can't be a node", node->def->name,
			def->name);
	enum stk_status s = check_node(g, value, def->name, err);
	if (s == STK_OK)
		node->varying[node->n_varying++] = (struct stk_varying){*def, value};
	node->without_pass |= def->without_pass;
	return s;
}

/* Fails if a value is malformed: its name, kind, pointers or length. graph/args.c checks whether the argument allows the value. */
static enum stk_status check_value(const struct stk_op_def *def, const struct stk_arg *v, struct stk_error *err)
{
	const bool list = v->kind == STK_VALUE_INTS || v->kind == STK_VALUE_FLOATS || v->kind == STK_VALUE_STRINGS;
	if (!v->name)
		return stk__fail(err, STK_INVALID, "%s: the name of an argument is NULL", def->name);
	if ((unsigned)v->kind > STK_VALUE_NODE)
		return stk__fail(err, STK_INVALID, "%s: argument \"%s\" is of kind %d, which is not in enum stk_value_kind", def->name,
			v->name, (int)v->kind);
	if ((v->kind == STK_VALUE_STRING && !v->value.s) || (list && v->value.list.count && !v->value.list.data))
		return stk__fail(err, STK_INVALID, "%s: the value of argument \"%s\" is NULL", def->name, v->name);
	if (list && v->value.list.count > INT32_MAX)
		return stk__fail(err, STK_INVALID, "%s: argument \"%s\" is a list of %zu values; there may be %d", def->name, v->name,
			v->value.list.count, INT32_MAX);
	for (size_t i = 0; v->kind == STK_VALUE_STRINGS && i < v->value.list.count; i++)
		if (!((const char *const *)v->value.list.data)[i])
			return stk__fail(err, STK_INVALID, "%s: value %zu of argument \"%s\" is NULL", def->name, i, v->name);
	return STK_OK;
}

/* Sets defaults, then the given values, then checks that required arguments were given. */
static enum stk_status set_args(
	struct stk_graph *g, struct stk_graph_node *node, const struct stk_arg *args, size_t n_args, struct stk_error *err)
{
	struct stk_arg_def def;
	int32_t k;
	enum stk_status s;
	for (k = 0; stk__op_arg_at(node->def, k, &def); k++)
		if ((s = stk__arg_set_default(g, &def, node->args, err)))
			return s;
	for (size_t i = 0; i < n_args; i++) {
		if (args[i].kind == STK_VALUE_NONE)
			continue;
		if ((s = check_value(node->def, &args[i], err)))
			return s;
		if ((s = find_arg(node->def, args[i].name, &k, &def, err)))
			return s;
		if (node->args_set >> k & 1)
			return stk__fail(err, STK_INVALID, "%s: argument \"%s\" is given twice", node->def->name, def.name);
		s = args[i].kind == STK_VALUE_NODE ? set_varying(g, node, &def, args[i].value.node, err)
						   : stk__arg_set(g, &def, &args[i], node->args, err);
		if (s)
			return s;
		node->args_set |= 1ull << k;
	}
	for (k = 0; stk__op_arg_at(node->def, k, &def); k++)
		if ((def.flags & STK_REQUIRED) && !(node->args_set >> k & 1))
			return stk__fail(err, STK_INVALID, "%s needs the argument \"%s\": %s", node->def->name, def.name, def.doc);
	return STK_OK;
}

static enum stk_status set_inputs(
	struct stk_graph *g, struct stk_graph_node *node, const struct stk_node *inputs, size_t n, struct stk_error *err)
{
	const struct stk_op_def *def = node->def;
	if ((int64_t)n < def->inputs.min || (int64_t)n > def->inputs.max)
		return stk__fail(err, STK_INVALID, "%s takes %d%s%.0d input%s, not %zu", def->name, def->inputs.min,
			def->inputs.max > def->inputs.min ? " to " : "", def->inputs.max > def->inputs.min ? def->inputs.max : 0,
			def->inputs.max == 1 ? "" : "s", n);
	for (size_t i = 0; i < n; i++) {
		enum stk_status s = check_node(g, inputs[i], "an input", err);
		if (s)
			return s;
		node->inputs[i] = inputs[i];
	}
	node->n_inputs = (int32_t)n;
	return STK_OK;
}

enum stk_device stk_graph_node_device(const struct stk_graph *g, struct stk_node node)
{
	if (!g || node.op < 0 || node.op >= g->n_nodes || stk__op_host_output(g->nodes[node.op]->def, node.output))
		return STK_DEVICE_CPU;
	return g->nodes[node.op]->device;
}

/* Returns the device on which a node runs. Operators without inputs (except readers of videos), operators that read only the descriptions of their inputs, and
 * operators that copy from the GPU always run on the cores. Others run on node->device or, if that is STK_DEVICE_ANY, on the GPU if one of their inputs is
 * there. */
static enum stk_device choose_device(const struct stk_graph *g, const struct stk_graph_node *node)
{
	if ((!node->n_inputs && !(node->def->flags & STK_OP_NVDEC)) || (node->def->flags & (STK_OP_DESCRIBES | STK_OP_FETCHES)))
		return STK_DEVICE_CPU;
	for (int32_t i = 0; i < node->n_inputs && node->device == STK_DEVICE_ANY; i++)
		if (stk_graph_node_device(g, node->inputs[i]) == STK_DEVICE_GPU)
			return STK_DEVICE_GPU;
	return node->device == STK_DEVICE_ANY ? STK_DEVICE_CPU : node->device;
}

static struct stk_graph_node *new_node(
	struct stk_graph *g, const struct stk_op_def *def, const struct stk_graph_options *o, size_t n_inputs, size_t n_args)
{
	struct stk_graph_node *node = stk__graph_alloc(g, sizeof *node);
	if (!node)
		return NULL;
	char generated[128];
	snprintf(generated, sizeof generated, "%s_%d", def->name, g->n_nodes);
	node->def = def;
	node->n_outputs = def->outputs ? def->outputs : 1;
	node->named = o && o->name;
	node->name = stk__graph_strdup(g, node->named ? o->name : generated);
	node->where = o && o->where ? stk__graph_strdup(g, o->where) : NULL;
	node->device = o ? o->device : STK_DEVICE_ANY;
	node->args = stk__graph_alloc(g, def->args_size + 1);
	node->inputs = stk__graph_alloc(g, (n_inputs + 1) * sizeof *node->inputs);
	node->varying = stk__graph_alloc(g, (n_args + 1) * sizeof *node->varying);
	return node->name && node->args && node->inputs && node->varying ? node : NULL;
}

static enum stk_status check_name(const struct stk_graph *g, const char *name, struct stk_error *err)
{
	for (int32_t i = 0; i < g->n_nodes; i++)
		if (strcmp(g->nodes[i]->name, name) == 0)
			return stk__fail(err, STK_INVALID, "two operators are named \"%s\"", name);
	return STK_OK;
}

/* Allocates node->outputs and infers what they describe. node->n_outputs must be set. */
static enum stk_status infer_outputs(struct stk_graph *g, struct stk_graph_node *node, struct stk_error *err)
{
	node->outputs = stk__graph_alloc(g, (size_t)node->n_outputs * sizeof *node->outputs);
	return node->outputs ? stk__node_infer(g, node, err) : stk__fail(err, STK_NO_MEMORY, "out of memory for an operator's outputs");
}

enum stk_status stk_graph_add(struct stk_graph *g, const char *op, const struct stk_node *inputs, size_t n_inputs,
	const struct stk_arg *args, size_t n_args, const struct stk_graph_options *options, struct stk_node *out, struct stk_error *err)
{
	if (STK_NEED(err, g, op, out) || (n_inputs && STK_NEED(err, inputs)) || (n_args && STK_NEED(err, args)))
		return STK_INVALID;
	if (options && ((unsigned)options->device > STK_DEVICE_GPU || (options->n_when && !options->when)))
		return stk__fail(
			err, STK_INVALID, "%s: stk_graph_options has device %d, or n_when without conditions", op, (int)options->device);
	if (g->frozen)
		return stk__fail(err, STK_STATE, "a pipeline was made from this graph: build another graph");
	const struct stk_op_def *def = stk__op_find(op);
	if (!def) {
		char text[256];
		stk_op_explain_missing(op, text, sizeof text);
		return stk__fail(err, STK_NOT_FOUND, "%s", text);
	}
	enum stk_status s = options && options->name ? check_name(g, options->name, err) : STK_OK;
	if (s)
		return s;
	struct stk_graph_node *node = n_inputs <= STK_MAX_INPUTS ? new_node(g, def, options, n_inputs, n_args) : NULL;
	if (!node)
		return stk__fail(err, n_inputs > STK_MAX_INPUTS ? STK_LIMIT : STK_NO_MEMORY, "%s: %s", op,
			n_inputs > STK_MAX_INPUTS ? "too many inputs" : "out of memory");
	size_t capacity = (size_t)g->nodes_capacity;
	if ((s = set_inputs(g, node, inputs, n_inputs, err)) || (s = set_args(g, node, args, n_args, err)) ||
		(options && (s = stk__when_set(g, node, options->when, options->n_when, err))) || (s = stk__when_check(g, node, err)))
		goto out;
	node->device = choose_device(g, node);
	if ((s = stk__node_by_frame(g, node, err)))
		goto out;
	if (def->output_count)
		node->n_outputs = def->output_count(node->args);
	if (def->flags & STK_OP_OPTIONAL_OUTPUTS)
		node->n_outputs += node->n_inputs - def->inputs.min;
	if ((s = infer_outputs(g, node, err)))
		goto out;
	if (!stk__grow((void **)&g->nodes, (size_t)g->n_nodes, &capacity, sizeof *g->nodes)) {
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for operator %s", op);
		goto out;
	}
	g->nodes_capacity = (int32_t)capacity;
	*out = (struct stk_node){g->n_nodes, 0};
	g->nodes[g->n_nodes++] = node;
	if (options && options->device == STK_DEVICE_GPU && node->device == STK_DEVICE_CPU && node->n_outputs == 1) {
		/* an operator that always runs on the cores, such as a draw or a constant: a copy moves its output to the GPU, for which the user asked */
		const struct stk_graph_options moved = {
			.where = options->where, .device = STK_DEVICE_GPU, .when = options->when, .n_when = options->n_when};
		return stk_graph_add(g, "copy", out, 1, NULL, 0, &moved, out, err);
	}
out:
	if (s && err) {
		char title[STK_MAX_TITLE];
		stk__node_title(node, title, sizeof title);
		stk__error_set_op(err, title);
	}
	return s;
}

int32_t stk_graph_node_outputs(const struct stk_graph *g, struct stk_node node)
{
	return g && node.op >= 0 && node.op < g->n_nodes ? g->nodes[node.op]->n_outputs : 0;
}

enum stk_status stk_graph_describe(struct stk_graph *g, struct stk_node node, struct stk_desc *out, struct stk_error *err)
{
	if (STK_NEED(err, g, out))
		return STK_INVALID;
	enum stk_status s = check_node(g, node, "this", err);
	if (s == STK_OK)
		*out = g->nodes[node.op]->outputs[node.output];
	return s;
}

enum stk_status stk_graph_output(struct stk_graph *g, struct stk_node node, struct stk_error *err)
{
	if (STK_NEED(err, g))
		return STK_INVALID;
	if (g->frozen)
		return stk__fail(err, STK_STATE, "a pipeline was made from this graph: build another graph");
	enum stk_status s = check_node(g, node, "the output", err);
	if (s == STK_OK)
		s = stk__when_always(g, node, err);
	for (int32_t i = 0; s == STK_OK && i < g->n_outputs; i++)
		/* A value that is an output already is copied, so that outputs do not share memory. */
		if (g->outputs[i].op == node.op && g->outputs[i].output == node.output)
			return (s = stk_graph_add(g, "copy", &node, 1, NULL, 0, NULL, &node, err)) ? s : stk_graph_output(g, node, err);
	if (s)
		return s;
	size_t capacity = (size_t)g->outputs_capacity;
	if (!stk__grow((void **)&g->outputs, (size_t)g->n_outputs, &capacity, sizeof *g->outputs))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for an output");
	g->outputs_capacity = (int32_t)capacity;
	g->outputs[g->n_outputs++] = node;
	return STK_OK;
}

static enum stk_status check_callbacks(const struct stk_source_callbacks *c, struct stk_error *err)
{
	if (!c->pull)
		return stk__fail(err, STK_INVALID, "stk_source_callbacks.pull is NULL");
	if ((unsigned)c->seek > STK_SEEK_NEVER)
		return stk__fail(err, STK_INVALID, "stk_source_callbacks.seek is %d; it must be one of enum stk_seek", (int)c->seek);
	return STK_OK;
}

enum stk_status stk_graph_set_source(
	struct stk_graph *g, struct stk_node node, const struct stk_source_callbacks *callbacks, struct stk_error *err)
{
	enum stk_status s = STK_NEED(err, g, callbacks);
	if (s == STK_OK && (s = check_node(g, node, "the source", err)) == STK_OK)
		s = check_callbacks(callbacks, err);
	if (s == STK_OK && (!(g->nodes[node.op]->def->flags & (STK_OP_CALLBACK | STK_OP_FUNCTION)) || g->nodes[node.op]->has_source))
		s = stk__fail(err, STK_INVALID, "%s is no external_source or python_function without callbacks", g->nodes[node.op]->name);
	if (s) {
		if (callbacks && callbacks->destroy)
			callbacks->destroy(callbacks->user);
		return s;
	}
	g->nodes[node.op]->source = *callbacks;
	g->nodes[node.op]->has_source = true;
	return STK_OK;
}

void stk_text_free(char *text)
{
	stk__free(text);
}
