/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of operators. The user builds it; the first pipeline freezes it, and from then on pipelines share it and count references. */
#ifndef STK_GRAPH_GRAPH_H
#define STK_GRAPH_GRAPH_H

#include "op/op.h"

#include <stdatomic.h>

/* An argument whose value for each sample comes from a node. */
struct stk_varying {
	struct stk_arg_def def;
	struct stk_node node;
};

struct stk_graph_node {
	const struct stk_op_def *def;
	char *name;             /* the user's name for the node, or a generated one such as "resize_3" */
	bool named;             /* true if the user gave the name */
	char *where;            /* the line that added the node, such as "train.py:31"; NULL if not known */
	enum stk_device device; /* STK_DEVICE_CPU or STK_DEVICE_GPU once the node was added */
	struct stk_node *inputs;
	int32_t n_inputs, n_outputs;
	void *args;
	uint64_t args_set; /* bit k: the user gave the argument that stk__op_arg_at numbers k */
	struct stk_varying *varying;
	int32_t n_varying;
	struct stk_desc *outputs;
	struct stk_condition *when; /* conditions of the branches that contain the node, outermost first */
	int32_t n_when;
	struct stk_source_callbacks source;
	bool has_source;
	bool by_frame;     /* runs once for each frame of its sequences: an argument, or an input of def->frame_inputs, is a sequence */
	bool without_pass; /* makes no pass, because an argument that determines whether a pass can do the work comes sample by sample */
	bool gathers;      /* with these arguments and inputs, the operator needs all samples of the batch */
	bool may_hold_nan; /* an argument that is marked STK_NAN is NaN, or comes sample by sample */
};

struct stk_graph {
	_Atomic int refs;
	bool frozen;
	struct stk_graph_node **nodes;
	int32_t n_nodes, nodes_capacity;
	struct stk_node *outputs;
	int32_t n_outputs, outputs_capacity;
	void **blocks; /* memory of names, lists and argument structs; freed with the graph */
	size_t n_blocks, blocks_capacity;
};

struct stk_graph *stk__graph_ref(struct stk_graph *g);

/* Makes room for one more element in an array that has `count` elements of `size` bytes and room for *capacity. If the array grows, updates *array and
 * *capacity. Returns false if memory is short; the array is then unchanged. */
bool stk__grow(void **array, size_t count, size_t *capacity, size_t size);
/* Returns zeroed memory that lives as long as the graph, or NULL if memory is short. stk__graph_strdup copies a string to such memory. */
void *stk__graph_alloc(struct stk_graph *g, size_t size);
char *stk__graph_strdup(struct stk_graph *g, const char *s);

/* frames.c: returns whether a tensor is a sequence, that is, whether its layout begins with F. */
bool stk__is_sequence(const struct stk_desc *desc);
/* Changes t from a sequence to its frame k. If t has no data, changes only the description. */
void stk__frame_of_sequence(struct stk_tensor *t, int64_t k);
/* Turns the description of a frame into that of a sequence of `count` such frames; -1: their number is not known yet. A description without a known ndim stays
 * as it is. STK_LIMIT: the frame has STK_MAX_DIMS dims already. */
enum stk_status stk__sequence_of_frames(struct stk_desc *frame, int64_t count, struct stk_error *err);
/* Fails if an operator that runs once for each frame cannot take d as its input 0. */
enum stk_status stk__check_sequence(const struct stk_op_def *def, const struct stk_desc *d, struct stk_error *err);
/* Sets node->by_frame, and fails if an argument is a sequence and takes only one value for each sample, or if input 0 must be a sequence and is not. Call it
 * after inputs and arguments are set. */
enum stk_status stk__node_by_frame(const struct stk_graph *g, struct stk_graph_node *node, struct stk_error *err);
/* Sets *count to the number of frames of d, if d is a sequence and the number is known. *count was set by earlier calls for the same node, or is -1. Fails if d
 * has another number of frames; the message then names d as `name`. */
enum stk_status stk__count_frames(const struct stk_desc *d, const char *name, int64_t *count, struct stk_error *err);

/* args.c: fills the field of one argument from a value given by the user or from its default. */
enum stk_status stk__arg_set(
	struct stk_graph *g, const struct stk_arg_def *def, const struct stk_arg *value, void *args, struct stk_error *err);
/* Returns the value of a STK_ARG_FLOAT, whose field is a float or, with STK_DOUBLE, a double. */
double stk__arg_float(const struct stk_arg_def *def, const void *field);
enum stk_status stk__arg_set_default(struct stk_graph *g, const struct stk_arg_def *def, void *args, struct stk_error *err);

/* Fails unless input i of an operator may have this type. Enumerations do not count as numbers: only operators that move elements without computing take them
 * as inputs. */
enum stk_status stk__input_takes(const struct stk_op_def *def, int32_t i, enum stk_dtype dtype, struct stk_error *err);
/* Fails if values of this type must not be given for the argument sample by sample: constants of an enumeration suit only arguments of that enumeration. */
enum stk_status stk__arg_takes(const struct stk_arg_def *def, enum stk_dtype dtype, struct stk_error *err);
/* Sets an argument for one sample from a tensor, which must not be a sequence of frames. A list takes a tensor of any shape, element by element; other
 * arguments take a tensor of one element. memory: the sample's arena, which holds lists. */
enum stk_status stk__arg_set_sample(
	const struct stk_arg_def *def, const struct stk_tensor *value, void *args, struct stk_arena *memory, struct stk_error *err);

/* Arguments marked STK_NAN may hold NaN only if the operator's output holds floats. stk__args_may_hold_nan returns whether an argument may hold NaN.
 * stk__args_suit fails if one holds NaN and `out`, the type of the first output, is not a type of floats. It does not fail if `out` is STK_NO_DTYPE. */
bool stk__args_may_hold_nan(const struct stk_graph_node *node);
enum stk_status stk__args_suit(const struct stk_op_def *op, const void *args, enum stk_dtype out, struct stk_error *err);

/* when.c: sets the node's conditions. Fails unless each is a bool scalar that exists in all branches named before it. Readers and external sources get no
 * conditions, since they run for all samples. */
enum stk_status stk__when_set(
	struct stk_graph *g, struct stk_graph_node *node, const struct stk_condition *when, size_t n_when, struct stk_error *err);
/* Fails unless the values that the node reads exist wherever it runs, and the values that a merge reads fit together. */
enum stk_status stk__when_check(const struct stk_graph *g, const struct stk_graph_node *node, struct stk_error *err);
/* Fails if a node runs only in a branch, so that its outputs do not exist for all samples. */
enum stk_status stk__when_always(const struct stk_graph *g, struct stk_node n, struct stk_error *err);

/* infer.c: infers node->outputs, and sets node->may_hold_nan and node->gathers, from what is known of its inputs. Fails if an input has a layout or a type
 * that the operator does not take, or if numbers of frames differ. */
enum stk_status stk__node_infer(const struct stk_graph *g, struct stk_graph_node *node, struct stk_error *err);

/* Returns whether the operator can process a tensor like this one with its `lower` function: the tensor must have an image layout that the operator takes. If
 * the dims are not known when the graph is built, returns true for operators that have no other function for the work, and for samplers (STK_CLASS_SAMPLER);
 * their chain then checks each sample. Returns false for decoders. */
bool stk__lowers(const struct stk_op_def *def, const struct stk_desc *in);
/* Fails with a message that lists the layouts that the operator takes. Call it for an input with another layout. */
enum stk_status stk__refuse_layout(const struct stk_op_def *def, const struct stk_desc *in, struct stk_error *err);

/* Finds the node's seed argument. Returns true and sets *seed if the node has the argument and it was given (>= 0). */
bool stk__node_seed(const struct stk_graph_node *node, uint64_t *seed);

/* Writes the node's name for messages and for stk_error.op, such as "resize at train.py:31". A longer name is cut off. */
enum { STK_MAX_TITLE = 256 }; /* the size of stk_error.op */
void stk__node_title(const struct stk_graph_node *node, char *text, size_t capacity);

#endif
