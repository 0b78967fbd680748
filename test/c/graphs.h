/* SPDX-License-Identifier: Apache-2.0
 * Builds graphs for tests, with one operator per line:
 *
 *     struct stk_graph *g = new_graph();
 *     struct value file = ADD(g, "readers.file", .args = {stk_arg_string("file_root", folder)});
 *     struct value image = ADD(g, "decoders.image", .in = {file}, .gpu = true);
 *     image = ADD(g, "resize", .in = {image}, .args = {INTS("size", 24, 32)}, .gpu = true);
 *     OUTPUTS(g, image, output_of(file, 1));
 *
 * An operator that the graph refuses fails the test. */
#ifndef STK_TEST_GRAPHS_H
#define STK_TEST_GRAPHS_H

#include "stoker/stoker.h"

#include <stdbool.h>

struct value {
	struct stk_node node;
	bool there; /* false marks the end of a list of inputs */
};

enum { GRAPH_INPUTS = 8, GRAPH_ARGS = 12 };

struct added_op {
	const char *name; /* the operator's name in the graph; NULL: a name is made from its number */
	bool gpu;
	struct value in[GRAPH_INPUTS];
	struct stk_arg args[GRAPH_ARGS];
	struct stk_condition when[GRAPH_INPUTS];
	size_t n_when;
};

struct stk_graph *new_graph(void);
/* Adds an operator and returns its first output. Fails the test if the graph refuses the operator. */
struct value add_op(struct stk_graph *g, const char *op, const struct added_op *how);
struct value output_of(struct value v, int32_t output);
void add_outputs(struct stk_graph *g, const struct value *values, size_t n);

/* The beginning of most graphs: a shuffled reader over a folder (file, label), and a coin (flip). */
struct begun {
	struct stk_graph *g;
	struct value file, label, flip;
};
struct begun begin_graph(const char *folder);

#define COUNT_OF(type, ...) (sizeof((type[]){__VA_ARGS__}) / sizeof(type))
#define ADD(g, op, ...) add_op(g, op, &(struct added_op){__VA_ARGS__})
#define OUTPUTS(g, ...) add_outputs(g, (struct value[]){__VA_ARGS__}, COUNT_OF(struct value, __VA_ARGS__))
#define INTS(name, ...) stk_arg_list(name, STK_VALUE_INTS, (int64_t[]){__VA_ARGS__}, COUNT_OF(int64_t, __VA_ARGS__))
#define FLOATS(name, ...) stk_arg_list(name, STK_VALUE_FLOATS, (double[]){__VA_ARGS__}, COUNT_OF(double, __VA_ARGS__))
/* The arguments mean and std of crop_mirror_normalize. */
#define NORM FLOATS("mean", 123.5, 116.25, 103.0), FLOATS("std", 58.0, 57.0, 57.5)

#endif
