/* SPDX-License-Identifier: Apache-2.0
 *
 * A program: a graph compiled for execution. Immutable, shared by workers.
 *
 *   level    all of a batch's work between two barriers; levels follow each other for each batch, batches overlap freely
 *   chain    operators that run on one core, one sample at a time, while its data is in cache; chains of a level are independent (six cameras)
 *   group    inside a chain: one operator, or several that make one pass over an image
 *
 * A barrier stands only where an operator needs to know all samples of the batch (it gathers: in a level of its own before that of its chain) or
 * waits (a user's callback). Operators without inputs (readers, draws, constants) are
 * cloned into each chain that reads them, since they are pure functions of the position. */
#ifndef STK_GRAPH_PROGRAM_H
#define STK_GRAPH_PROGRAM_H

#include "graph/graph.h"

/* A value of the program: output `output` of node `node`. */
struct stk_value {
	int32_t node, output;
	struct stk_desc desc; /* what is known beforehand */
	int32_t slot;         /* its place among the values kept in the slot; -1: lives in a worker's scratch */
	int32_t consumers;    /* inputs, arguments and conditions that read it */
	int32_t merge;        /* node that merges it, where its memory may be that of the merged value; -1: none */
	bool is_output;
	bool on_gpu; /* its data are addresses there */
};

struct stk_program_varying {
	struct stk_arg_def def;
	int32_t value;
};

/* Of a branch: the predicate's value is as wanted. */
struct stk_program_condition {
	int32_t value;
	bool wanted;
};

struct stk_program_node {
	const struct stk_graph_node *node;
	const struct stk_op_def *def;
	void *shared;
	bool set_up;
	int32_t first_value; /* its outputs are first_value .. first_value + n_outputs - 1 */
	int32_t *inputs;     /* values */
	struct stk_program_varying *varying;
	struct stk_program_condition *when; /* the branches that it stands in, outermost first; as many as node->n_when */
	uint64_t stream, seed;
	bool has_seed, cloned, lowers; /* lowers: makes a pass, or part of one */
	bool pruned;                   /* an external source that no output needs, or an operator that reads one: never runs */
	bool decides;                  /* is a predicate, or what one is made from: runs before the rest of its chain */
	bool on_gpu;                   /* described by its chain, done by the batch's step on the GPU */
	unsigned classes;              /* what it adds to a pass */
	int32_t level, chain;          /* chain: in its level; -1 for callback and cloned nodes */
	int32_t reader;                /* its place among the readers; -1: is none */
	int32_t origin;                /* the reader that its input comes from, by its place; -1: none */
	int32_t gathers;               /* its place among the nodes that gather, one level before its own; -1: does not */
};

/* All nodes of a group stand in the same branches. */
struct stk_group {
	const int32_t *nodes; /* into the chain's node list */
	int32_t count;
	bool pass;          /* its nodes make one pass; the first may be a decoder */
	bool fixed;         /* its values are there before any sample comes (stk__program_fixed) */
	int32_t step;       /* on the GPU: its number among the program's steps there; -1: on the cores */
	int32_t image_step; /* of a pass there: the step that makes its image, where nobody else reads that; -1: none */
	const struct stk_program_condition *when;
	int32_t n_when;
};

struct stk_chain {
	int32_t *nodes; /* in order of execution, cloned ones included */
	int32_t n_nodes;
	struct stk_group *groups;
	int32_t n_groups;
	uint64_t reads; /* readers whose bytes it needs, a bit each */
	int32_t *kept;  /* values of earlier levels that it reads, by their slot places; with branches, all of them */
	int32_t n_kept;
	bool *wants; /* of each value: a node here reads it, or it is kept and made here; of those of clones, which make no others */
};

enum { STK_MAX_READERS = 64, STK_MAX_CHAINS = 64 };
struct stk_program_reader {
	int32_t node;
	int32_t parts; /* of a sample, fetched for it; 0: nothing is */
};

struct stk_level {
	struct stk_chain *chains;
	int32_t n_chains;
	int32_t *gathers; /* nodes of the next level whose gather runs in this one, over what the levels before made */
	int32_t n_gathers;
	int32_t *callbacks; /* external sources; level 0 only */
	int32_t n_callbacks;
	int32_t first_step, n_steps; /* on the GPU, for the whole batch, when all chains are done */
};

struct stk_program {
	_Atomic int refs;
	struct stk_graph *graph;
	struct stk_program_node *nodes;
	int32_t n_nodes;
	struct stk_value *values;
	int32_t n_values;
	int32_t *slot_values; /* values by slot place */
	int32_t n_slot_values;
	int32_t *outputs; /* values */
	int32_t n_outputs;
	struct stk_level *levels;
	int32_t n_levels;
	int32_t max_chains;      /* of a level; at least 1 */
	int32_t last_read_level; /* behind it nobody needs bytes of samples */
	int32_t n_gathers;       /* nodes that gather */
	int32_t n_steps;         /* on the GPU */
	int32_t n_decodes;       /* steps that begin with files */
	struct stk_program_reader *readers;
	int32_t n_readers;
	int32_t reader; /* node of the leading one, which defines the epoch; -1: there is none */
	int32_t lead;   /* its place among the readers */
	bool reads;     /* bytes are fetched for samples */
	bool branches;  /* some operators run for some samples alone, or values are merged */
	bool fused;
	bool on_gpu;       /* operators may be */
	int32_t max_nodes; /* of the longest chain */
	uint64_t seed;
};

/* Freezes the graph. seed: of augmentation; on_gpu: operators that are placed on the GPU run there, else on the cores. */
STK_MUST_USE enum stk_status stk__program_create(struct stk_graph *graph, uint64_t seed, bool fuse, bool on_gpu,
	const struct stk_access *access, struct stk_program **out, struct stk_error *err);
/* Before it runs: this reader leads, by its place. */
void stk__program_lead(struct stk_program *p, int32_t reader);
/* The place of a reader, by its name; NULL: the leading one. STK_NOT_FOUND: says which there are. */
STK_MUST_USE enum stk_status stk__program_reader(const struct stk_program *p, const char *name, int32_t *out, struct stk_error *err);
/* All of them, the leading one first: the place of the i-th. */
int32_t stk__program_reader_at(const struct stk_program *p, int32_t i);
struct stk_program *stk__program_ref(struct stk_program *p);
void stk__program_unref(struct stk_program *p);

/* fuse.c: splits a chain's nodes into groups. */
enum stk_status stk__fuse(struct stk_program *p, struct stk_chain *chain, struct stk_error *err);

/* explain.c: what will run, as text or JSON. Slots and ring are the pipeline's to add. resident: it runs over a data set that
 * lies on the GPU. recipes: over one in memory, by recipes. */
struct stk_text;
void stk__program_explain(const struct stk_program *p, bool json, bool resident, bool recipes, struct stk_text *out);

/* Memory that lives as long as the program: it hangs on its graph, which the program holds. */
static inline void *stk__program_alloc(struct stk_program *p, size_t count, size_t size)
{
	return stk__graph_alloc(p->graph, count * size + 1);
}

/* Whether a node's value is the same for every sample, and needs no place in a slot: workers have it before any sample comes. */
static inline bool stk__program_fixed(const struct stk_program *p, int32_t node)
{
	const struct stk_program_node *n = &p->nodes[node];
	return (n->def->flags & STK_OP_FIXED) && n->cloned && p->values[n->first_value].slot < 0;
}

/* Whether a node's gather reads values that are on the GPU, of which it is given copies. */
static inline bool stk__program_fetches(const struct stk_program *p, int32_t node)
{
	const struct stk_program_node *n = &p->nodes[node];
	bool fetches = false;
	for (int32_t k = 0; (n->def->flags & STK_OP_GATHERS_DATA) && k < n->node->n_inputs; k++)
		fetches |= p->values[n->inputs[k]].on_gpu;
	return fetches;
}

/* All values that a node reads, those of arguments and of conditions too: how many, and each. */
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
		same = a->when[k].value == b->when[k].value && a->when[k].wanted == b->when[k].wanted;
	return same;
}

#endif
