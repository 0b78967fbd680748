/* SPDX-License-Identifier: Apache-2.0
 *
 * A program: a graph compiled for execution. Immutable, shared by workers.
 *
 *   level    all of a batch's work between two barriers; the levels of a batch run one after the other, batches overlap freely
 *   chain    operators that run on one core, one sample at a time, while its data is in cache; the chains of a level, such as one for each of six cameras,
 *            are independent
 *   group    inside a chain: one operator, or several that make one pass over an image
 *
 * There are barriers only before and after a gather, which needs all samples of the batch, and before operators that read what a user's callback returns.
 * Operators without inputs (readers, draws, constants) are cloned into each chain that reads them, since they are pure functions of the position. */
#ifndef STK_GRAPH_PROGRAM_H
#define STK_GRAPH_PROGRAM_H

#include "graph/graph.h"

/* A value of the program: output `output` of node `node`. */
struct stk_value {
	int32_t node, output;
	struct stk_desc desc; /* description of the value, as far as it is known before the run */
	int32_t slot;         /* index in slot_values; -1: the value is in a worker's scratch memory */
	int32_t consumers;    /* number of inputs, arguments and conditions that read the value */
	int32_t merge;        /* node that merges the value and to whose output the value may be written; -1: no such node */
	bool is_output;
	bool on_gpu; /* its data pointers are addresses on the GPU */
};

struct stk_program_varying {
	struct stk_arg_def def;
	int32_t value;
};

/* A branch's condition: the predicate's value must equal `expected`. */
struct stk_program_condition {
	int32_t value;
	bool expected;
};

struct stk_program_node {
	const struct stk_graph_node *node;
	const struct stk_op_def *def;
	void *shared;        /* data that all calls share: what the reader's `open` or the operator's `setup` has made, or NULL */
	bool set_up;         /* `open` or `setup` has succeeded, so that `teardown` must be called */
	int32_t first_value; /* the node's outputs are the values first_value to first_value + n_outputs - 1 */
	int32_t *inputs;     /* indices of the values that are the node's inputs */
	struct stk_program_varying *varying;
	struct stk_program_condition *when; /* node->n_when conditions of the branches that contain the node, outermost first */
	uint64_t stream, seed;              /* number of the stream of random numbers, and their seed: the program's unless has_seed */
	bool has_seed, cloned, lowers;      /* cloned: each chain that reads it runs a copy; lowers: makes a pass, or part of one */
	bool pruned;                        /* an external source that no output needs, or an operator that reads one: never runs */
	bool decides;                       /* is a predicate, or an input of one: runs before the rest of its chain */
	bool on_gpu;                        /* its chain only describes its output; the batch's step on the GPU makes it */
	unsigned classes;                   /* enum stk_step_class: classes of the steps that it may add to a pass */
	/* chain: number in its level. A cloned node has the level and chain that write its values to the slot. chain is -1 for callbacks, for nodes that never
	 * run, and for cloned nodes whose values are not in the slot. */
	int32_t level, chain;
	int32_t reader; /* index among the readers; -1: not a reader */
	/* index of the reader from which the node's data comes: the node itself if it is a reader, otherwise the origin of its first input that has one; -1:
	 * none */
	int32_t origin;
	int32_t gathers; /* number of the node among the nodes that gather (their gather runs in the level before their own); -1: the node does not gather */
};

/* A group of operators, as the top of this file defines it. All its nodes are in the same branches. */
struct stk_group {
	const int32_t
		*nodes; /* the group's nodes: part of an array that stk__fuse makes, with the chain's nodes in the order of its groups */
	int32_t count;
	bool pass;          /* its nodes make one pass; the first may be a decoder */
	bool fixed;         /* its values are made before the first sample is processed (stk__program_fixed) */
	int32_t step;       /* on the GPU: number of the group's step among the program's GPU steps; -1: the group runs on the cores */
	bool feeds;         /* only the next group reads its result; the next group's job may include this group's (struct stk_held_job) */
	int32_t image_step; /* for a pass on the GPU: the step that makes its image, if no other operator reads that image; -1: none */
	const struct stk_program_condition *when;
	int32_t n_when;
};

struct stk_chain {
	/* the chain's nodes, cloned ones included: first predicates and their sources, then the others, both in the graph's order */
	int32_t *nodes;
	int32_t n_nodes;
	struct stk_group *groups;
	int32_t n_groups;
	uint64_t reads; /* bit k: the chain needs the bytes that reader k fetches */
	/* slot indices of the values of earlier levels that the chain reads, or of all values of earlier levels if there are branches */
	int32_t *kept_values;
	int32_t n_kept;
	bool *is_read; /* for each value: true if a node of this chain reads it, or if this chain writes it to the slot; cloned nodes make only these */
};

enum { STK_MAX_READERS = 64, STK_MAX_CHAINS = 64 };
struct stk_program_reader {
	int32_t node;
	int32_t parts; /* number of parts that are fetched for a sample; 0: none */
};

struct stk_level {
	struct stk_chain *chains;
	int32_t n_chains;
	int32_t *gathers; /* nodes of the next level whose gather runs in this level, over values of the earlier levels */
	int32_t n_gathers;
	int32_t *callbacks; /* external sources; level 0 only */
	int32_t n_callbacks;
	int32_t first_step, n_steps; /* the level's steps on the GPU, which run for the whole batch after all chains */
};

struct stk_program {
	_Atomic int refs;
	struct stk_graph *graph;
	struct stk_program_node *nodes;
	int32_t n_nodes;
	struct stk_value *values;
	int32_t n_values;
	int32_t *slot_values; /* index in `values` of each value that slots contain */
	int32_t n_slot_values;
	int32_t *outputs; /* indices of the values that are outputs of the graph */
	int32_t n_outputs;
	struct stk_level *levels;
	int32_t n_levels;
	int32_t max_chains;      /* maximum number of chains in a level; at least 1 */
	int32_t last_read_level; /* the last level that needs bytes of samples */
	int32_t n_gathers;       /* number of nodes that gather */
	int32_t n_steps;         /* number of the program's GPU steps */
	int32_t n_decodes;       /* number of GPU steps that begin with encoded files */
	struct stk_program_reader *readers;
	int32_t n_readers;
	int32_t reader;         /* node of the leading reader, which defines the epoch; -1: no reader */
	int32_t leading_reader; /* index of the leading reader in `readers` */
	bool reads;             /* true if bytes are fetched for samples */
	bool branches;          /* true if some operators run only for some samples, or values are merged */
	bool fused;
	bool on_gpu;       /* true if operators may run on the GPU */
	int32_t max_nodes; /* number of nodes in the longest chain */
	uint64_t seed;
};

/* Compiles a graph, which has outputs, and freezes it; also opens the data sets of its readers through `access`. seed: seed of the random operators without a
 * seed of their own; fuse: operators may share passes and jobs; on_gpu: operators that are placed on the GPU run there, else they run on the cores. The graph
 * stays frozen if compiling it fails. */
STK_MUST_USE enum stk_status stk__program_create(struct stk_graph *graph, uint64_t seed, bool fuse, bool on_gpu,
	const struct stk_access *access, struct stk_program **out, struct stk_error *err);
/* Makes this reader (by index) the leading one. Call it before the program runs. */
void stk__program_lead(struct stk_program *p, int32_t reader);
/* Finds a reader's index by its name; NULL: the leading one. STK_NOT_FOUND: the error lists the readers that exist. */
STK_MUST_USE enum stk_status stk__program_reader(const struct stk_program *p, const char *name, int32_t *out, struct stk_error *err);
/* Returns the index of the i-th reader, in an order that has the leading reader first and the others by index. */
int32_t stk__program_reader_at(const struct stk_program *p, int32_t i);
struct stk_program *stk__program_ref(struct stk_program *p);
void stk__program_unref(struct stk_program *p);

/* fuse.c: splits a chain's nodes into groups. */
enum stk_status stk__fuse(struct stk_program *p, struct stk_chain *chain, struct stk_error *err);

/* explain.c: appends a description of the program's levels, chains and operators to `out`, as text or JSON. resident: the program runs over a data set that
 * lies on the GPU. recipes: the program runs over a data set in memory, by recipes (kernel/recipe/recipe.h). */
struct stk_text;
void stk__program_explain(const struct stk_program *p, bool json, bool resident, bool recipes, struct stk_text *out);

/* Returns zeroed memory for `count` elements of `size` bytes, or NULL if memory is short. The graph owns the memory, so it outlives the program. */
static inline void *stk__program_alloc(struct stk_program *p, size_t count, size_t size)
{
	return stk__graph_alloc(p->graph, count * size + 1);
}

/* Returns true if a node's value is the same for every sample and is not in a slot. Workers make such a value once, before their first sample. */
static inline bool stk__program_fixed(const struct stk_program *p, int32_t node)
{
	const struct stk_program_node *n = &p->nodes[node];
	return (n->def->flags & STK_OP_FIXED) && n->cloned && p->values[n->first_value].slot < 0;
}

/* Returns whether a node's gather reads values that are on the GPU. Such a gather gets copies of them. */
static inline bool stk__program_fetches(const struct stk_program *p, int32_t node)
{
	const struct stk_program_node *n = &p->nodes[node];
	bool fetches = false;
	for (int32_t k = 0; (n->def->flags & STK_OP_GATHERS_DATA) && k < n->node->n_inputs; k++)
		fetches |= p->values[n->inputs[k]].on_gpu;
	return fetches;
}

/* Returns the number of values that a node reads: its inputs, its arguments that come sample by sample, and its conditions, in this order.
 * stk__program_source returns the k-th of them. */
static inline int32_t stk__program_sources(const struct stk_program_node *n)
{
	return n->node->n_inputs + n->node->n_varying + n->node->n_when;
}

static inline int32_t stk__program_source(const struct stk_program_node *n, int32_t k)
{
	if (k < n->node->n_inputs)
		return n->inputs[k];
	k -= n->node->n_inputs;
	return k < n->node->n_varying ? n->varying[k].value : n->when[k - n->node->n_varying].value;
}

static inline bool stk__program_same_branch(const struct stk_program_node *a, const struct stk_program_node *b)
{
	bool same = a->node->n_when == b->node->n_when;
	for (int32_t k = 0; k < a->node->n_when && same; k++)
		same = a->when[k].value == b->when[k].value && a->when[k].expected == b->when[k].expected;
	return same;
}

#endif
