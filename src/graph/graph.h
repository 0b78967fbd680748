/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph while it is built, and as pipelines share it afterwards: from the first pipeline on it is frozen and reference-counted. */
#ifndef STK_GRAPH_GRAPH_H
#define STK_GRAPH_GRAPH_H

#include "op/op.h"

#include <stdatomic.h>

/* An argument that is a node: one value a sample. */
struct stk_varying {
	struct stk_arg_def def;
	struct stk_node node;
};

struct stk_graph_node {
	const struct stk_op_def *def;
	char *name;             /* "Reader", or made up: "resize_3" */
	bool named;             /* by the user */
	char *where;            /* "train.py:31", or NULL */
	enum stk_device device; /* CPU or GPU once it stands in the graph */
	struct stk_node *inputs;
	int32_t n_inputs, n_outputs;
	void *args;
	uint64_t given; /* bit k: argument k of the flat table was given */
	struct stk_varying *varying;
	int32_t n_varying;
	struct stk_desc *outputs;
	struct stk_condition *when; /* the branches that it stands in, outermost first */
	int32_t n_when;
	struct stk_source_callbacks source;
	bool has_source;
	bool by_frame;     /* runs once for each frame of its sequences: an argument, or an input of def->frame_inputs, is one */
	bool alone;        /* makes no pass: an argument that decides that comes sample by sample */
	bool gathers;      /* given its arguments and inputs, it needs all samples of the batch */
	bool may_hold_nan; /* an argument that may hold NaN for outputs of floats holds it, or comes sample by sample */
};

struct stk_graph {
	_Atomic int refs;
	bool frozen;
	struct stk_graph_node **nodes;
	int32_t n_nodes, room_nodes;
	struct stk_node *outputs;
	int32_t n_outputs, room_outputs;
	void **blocks; /* memory behind names, lists and argument structs; freed with the graph */
	size_t n_blocks, room_blocks;
};

struct stk_graph *stk__graph_ref(struct stk_graph *g);

/* Makes room for one more element of an array. */
bool stk__grow(void **array, size_t count, size_t *room, size_t size);
/* Memory that lives as long as the graph; zeroed. */
void *stk__graph_alloc(struct stk_graph *g, size_t size);
char *stk__graph_strdup(struct stk_graph *g, const char *s);

/* frames.c: sequences, whose layout begins with F. */
bool stk__is_sequence(const struct stk_desc *desc);
/* The tensor of frame k of a sequence; with data NULL, what describes it. */
void stk__frame_of_sequence(struct stk_tensor *t, int64_t k);
/* What describes a sequence of `count` such frames; -1: not known yet. */
enum stk_status stk__sequence_of_frames(struct stk_desc *frame, int64_t count, struct stk_error *err);
/* An error unless d, which describes input 0, may stand where an operator runs for each frame. */
enum stk_status stk__check_sequence(const struct stk_op_def *def, const struct stk_desc *d, struct stk_error *err);
/* Decides by_frame, once inputs and arguments are there. */
enum stk_status stk__node_by_frame(const struct stk_graph *g, struct stk_graph_node *node, struct stk_error *err);
/* Takes the number of frames of d, if it is a sequence and that is known; an error where it differs from *count. -1: none was seen yet. */
enum stk_status stk__count_frames(const struct stk_desc *d, const char *name, int64_t *count, struct stk_error *err);

/* args.c: fills the field of one argument from a value given by the user or from its default. */
enum stk_status stk__arg_set(
	struct stk_graph *g, const struct stk_arg_def *def, const struct stk_arg *value, void *args, struct stk_error *err);
enum stk_status stk__arg_set_default(struct stk_graph *g, const struct stk_arg_def *def, void *args, struct stk_error *err);

/* Whether input i of an operator may be of this type. Enumerations are no numbers: they go through operators that move elements, and to arguments of their
 * kind. */
enum stk_status stk__input_takes(const struct stk_op_def *def, int32_t i, enum stk_dtype dtype, struct stk_error *err);
/* Whether values of this type may be given for the argument, sample by sample: those of an enumeration go where it is asked for. */
enum stk_status stk__arg_takes(const struct stk_arg_def *def, enum stk_dtype dtype, struct stk_error *err);
/* Sets an argument for one sample from a tensor (any numeric type; lists from 1-d tensors), which holds no frames. memory: of the sample. */
enum stk_status stk__arg_set_sample(
	const struct stk_arg_def *def, const struct stk_tensor *value, void *args, struct stk_arena *memory, struct stk_error *err);

/* NaN in an argument that it is allowed in (STK_NAN) needs an output of floats: an error where `out`, the type of the first one, is none.
 * STK_NO_DTYPE, while that is not known, is none of them. */
bool stk__args_may_hold_nan(const struct stk_graph_node *node);
enum stk_status stk__args_suit(const struct stk_op_def *op, const void *args, enum stk_dtype out, struct stk_error *err);

/* when.c: takes the conditions that were asked for, and checks that they can be known where the node stands. */
enum stk_status stk__when_set(
	struct stk_graph *g, struct stk_graph_node *node, const struct stk_condition *when, size_t n_when, struct stk_error *err);
/* That what the node reads exists wherever it runs, and that what a merge reads fits together. */
enum stk_status stk__when_check(const struct stk_graph *g, const struct stk_graph_node *node, struct stk_error *err);
/* That a node exists for all samples. */
enum stk_status stk__when_always(const struct stk_graph *g, struct stk_node n, struct stk_error *err);

/* infer.c: descs of a node's outputs from what is known of its inputs, with the checks of layouts. */
enum stk_status stk__node_infer(const struct stk_graph *g, struct stk_graph_node *node, struct stk_error *err);

/* True where an image operator's lower serves a tensor like this one: an image layout that the operator takes. Where dims are not known when the
 * graph is built, what has no other way is taken to lower; chains then ask again for each sample. */
bool stk__lowers(const struct stk_op_def *def, const struct stk_desc *in);
/* The error that says which layouts the operator takes. */
enum stk_status stk__refuse_layout(const struct stk_op_def *def, const struct stk_desc *in, struct stk_error *err);

/* The seed argument of a node, when it has one and it was given (>= 0). */
bool stk__node_seed(const struct stk_graph_node *node, uint64_t *seed);

/* "resize at train.py:31", for stk_error.op. */
enum { STK_MAX_TITLE = 256 }; /* as much as an error holds of it */
void stk__node_title(const struct stk_graph_node *node, char *text, size_t capacity);

#endif
