/* SPDX-License-Identifier: Apache-2.0
 * Checks branches while the graph is built. An operator in a branch runs only for the samples that take the branch. An operator that reads a value which does
 * not exist for all its samples is refused here, so that no check is needed at run time. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NESTING = 64 };

static bool same_condition(const struct stk_condition *a, const struct stk_condition *b)
{
	return a->predicate.op == b->predicate.op && a->predicate.output == b->predicate.output && a->wanted == b->wanted;
}

/* Returns whether a value that exists under the conditions `writer` exists whenever the conditions `reader` hold, that is, whether `reader` begins with `writer`. */
static bool covers(const struct stk_condition *writer, int32_t n_writer, const struct stk_condition *reader, int32_t n_reader)
{
	for (int32_t i = 0; i < n_writer; i++)
		if (i >= n_reader || !same_condition(&writer[i], &reader[i]))
			return false;
	return true;
}

/* Fails with a message that names the first branch that contains `from` and is not among the conditions `read` of the operator that reads its value. */
static enum stk_status refuse(const struct stk_graph *g, const struct stk_graph_node *from, const struct stk_condition *read,
	int32_t n_read, struct stk_error *err)
{
	int32_t k = 0;
	while (k < n_read && k < from->n_when && same_condition(&from->when[k], &read[k]))
		k++;
	char title[96], branch[96];
	stk__node_title(from, title, sizeof title);
	stk__node_title(g->nodes[from->when[k].predicate.op], branch, sizeof branch);
	return stk__fail(err, STK_INVALID,
		"what %s makes exists only for samples for which the condition (%s) is %s, and is read outside of that branch; give the value in both "
		"branches, by a variable that both assign",
		title, branch, from->when[k].wanted ? "true" : "false");
}

static enum stk_status check_read(
	const struct stk_graph *g, struct stk_node value, const struct stk_condition *read, int32_t n_read, struct stk_error *err)
{
	const struct stk_graph_node *from = g->nodes[value.op];
	return covers(from->when, from->n_when, read, n_read) ? STK_OK : refuse(g, from, read, n_read, err);
}

static enum stk_status check_predicate(const struct stk_graph *g, struct stk_node n, struct stk_error *err)
{
	if (n.op < 0 || n.op >= g->n_nodes || n.output < 0 || n.output >= g->nodes[n.op]->n_outputs)
		return stk__fail(err, STK_INVALID, "a condition is not a value of this graph (operator %d, output %d)", n.op, n.output);
	const struct stk_desc *d = &g->nodes[n.op]->outputs[n.output];
	if (d->dtype == STK_BOOL && d->ndim == 0)
		return STK_OK;
	char title[96];
	stk__node_title(g->nodes[n.op], title, sizeof title);
	return stk__fail(err, STK_SHAPE,
		"a condition is one bool a sample (a scalar): %s is not known to be that; \"_truth\" makes it of a number", title);
}

enum stk_status stk__when_set(
	struct stk_graph *g, struct stk_graph_node *node, const struct stk_condition *when, size_t n_when, struct stk_error *err)
{
	if (n_when > MAX_NESTING)
		return stk__fail(err, STK_LIMIT, "%zu branches inside each other; at most %d are supported", n_when, MAX_NESTING);
	if (!n_when || node->def->reader || (node->def->flags & STK_OP_CALLBACK))
		return STK_OK;
	node->when = stk__graph_alloc(g, n_when * sizeof *when);
	if (!node->when)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the conditions of an operator");
	for (size_t i = 0; i < n_when; i++) {
		enum stk_status s = check_predicate(g, when[i].predicate, err);
		if (s == STK_OK)
			s = check_read(g, when[i].predicate, node->when, (int32_t)i, err);
		if (s)
			return s;
		node->when[i] = when[i];
	}
	node->n_when = (int32_t)n_when;
	return STK_OK;
}

static void describe_side(const struct stk_graph_node *from, const struct stk_desc *d, char *text, size_t capacity)
{
	char title[96];
	stk__node_title(from, title, sizeof title);
	snprintf(text, capacity, "%s gives %s with %d dim%s%s%s%s", title, stk_dtype_name(d->dtype), d->ndim, d->ndim == 1 ? "" : "s",
		d->layout[0] ? " (" : "", d->layout, d->layout[0] ? ")" : "");
}

static enum stk_status check_sides(const struct stk_graph *g, const struct stk_graph_node *merge, struct stk_error *err)
{
	const struct stk_graph_node *a = g->nodes[merge->inputs[1].op], *b = g->nodes[merge->inputs[2].op];
	const struct stk_desc *x = &a->outputs[merge->inputs[1].output], *y = &b->outputs[merge->inputs[2].output];
	bool types = x->dtype == STK_NO_DTYPE || y->dtype == STK_NO_DTYPE || x->dtype == y->dtype;
	bool dims = x->ndim < 0 || y->ndim < 0 || (x->ndim == y->ndim && strcmp(x->layout, y->layout) == 0);
	if (types && dims)
		return STK_OK;
	char first[192], second[192];
	describe_side(a, x, first, sizeof first);
	describe_side(b, y, second, sizeof second);
	return stk__fail(
		err, STK_SHAPE, "the branches differ: %s, %s; both must agree in type, number of dimensions and layout", first, second);
}

static enum stk_status check_merge(const struct stk_graph *g, const struct stk_graph_node *node, struct stk_error *err)
{
	struct stk_condition side[MAX_NESTING + 1];
	int32_t n = node->n_when;
	enum stk_status s = check_predicate(g, node->inputs[0], err);
	if (s || (s = check_read(g, node->inputs[0], node->when, n, err)))
		return s;
	for (int32_t i = 0; i < n; i++)
		side[i] = node->when[i];
	for (int32_t k = 1; k <= 2 && s == STK_OK; k++) {
		side[n] = (struct stk_condition){node->inputs[0], k == 1};
		s = check_read(g, node->inputs[k], side, n + 1, err);
	}
	return s ? s : check_sides(g, node, err);
}

enum stk_status stk__when_check(const struct stk_graph *g, const struct stk_graph_node *node, struct stk_error *err)
{
	if (node->def->flags & STK_OP_MERGES)
		return check_merge(g, node, err);
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < node->n_inputs && s == STK_OK; k++)
		s = check_read(g, node->inputs[k], node->when, node->n_when, err);
	for (int32_t k = 0; k < node->n_varying && s == STK_OK; k++)
		s = check_read(g, node->varying[k].node, node->when, node->n_when, err);
	return s;
}

enum stk_status stk__when_always(const struct stk_graph *g, struct stk_node n, struct stk_error *err)
{
	return check_read(g, n, NULL, 0, err);
}
