/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include "test.h"

struct stk_graph *new_graph(void)
{
	struct stk_graph *g;
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	return g;
}

struct value add_op(struct stk_graph *g, const char *op, const struct added_op *how)
{
	struct stk_error err = {0};
	struct stk_node in[GRAPH_INPUTS];
	size_t n_in = 0, n_args = 0;
	struct value out = {.there = true};
	const struct stk_graph_options options = {
		.name = how->name, .device = how->gpu ? STK_DEVICE_GPU : STK_DEVICE_ANY, .when = how->when, .n_when = how->n_when};
	for (; n_in < GRAPH_INPUTS && how->in[n_in].there; n_in++)
		in[n_in] = how->in[n_in].node;
	while (n_args < GRAPH_ARGS && how->args[n_args].name)
		n_args++;
	if (stk_graph_add(g, op, in, n_in, how->args, n_args, &options, &out.node, &err))
		fail_msg("%s: %s", op, err.message);
	return out;
}

struct value output_of(struct value v, int32_t output)
{
	v.node.output = output;
	return v;
}

void add_outputs(struct stk_graph *g, const struct value *values, size_t n)
{
	struct stk_error err = {0};
	for (size_t i = 0; i < n; i++)
		if (stk_graph_output(g, values[i].node, &err))
			fail_msg("output %zu: %s", i, err.message);
}

struct begun begin_graph(const char *folder)
{
	struct begun b = {.g = new_graph()};
	b.file = ADD(b.g, "readers.file",
		.args = {stk_arg_string("file_root", folder), stk_arg_bool("random_shuffle", true), stk_arg_string("tail", "keep")});
	b.label = output_of(b.file, 1);
	b.flip = ADD(b.g, "random.coin_flip", .name = "Flip");
	return b;
}
