/* SPDX-License-Identifier: Apache-2.0
 * Compiles a graph: determines its values, levels and chains. */
#include "graph/program.h"

#include "base/text.h"

#include <string.h>

static int32_t value_of(const struct stk_program *p, struct stk_node n)
{
	return p->nodes[n.op].first_value + n.output;
}

static enum stk_status make_nodes(struct stk_program *p, struct stk_error *err)
{
	struct stk_graph *g = p->graph;
	p->n_nodes = g->n_nodes;
	p->nodes = stk__program_alloc(p, (size_t)g->n_nodes, sizeof *p->nodes);
	for (int32_t i = 0; i < g->n_nodes; i++)
		p->n_values += g->nodes[i]->n_outputs;
	p->values = stk__program_alloc(p, (size_t)p->n_values, sizeof *p->values);
	p->slot_values = stk__program_alloc(p, (size_t)p->n_values, sizeof *p->slot_values);
	if (!p->nodes || !p->values || !p->slot_values)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline of %d operators", g->n_nodes);
	int32_t v = 0;
	for (int32_t i = 0; i < g->n_nodes; i++) {
		struct stk_program_node *n = &p->nodes[i];
		const struct stk_graph_node *from = g->nodes[i];
		*n = (struct stk_program_node){.node = from,
			.def = from->def,
			.first_value = v,
			.chain = -1,
			.reader = -1,
			.gathers = from->gathers ? p->n_gathers++ : -1,
			.on_gpu = p->on_gpu && from->device == STK_DEVICE_GPU};
		for (int32_t k = 0; k < from->n_outputs; k++)
			p->values[v++] = (struct stk_value){.node = i,
				.output = k,
				.desc = from->outputs[k],
				.slot = -1,
				.merge = -1,
				.on_gpu = n->on_gpu && !stk__op_host_output(from->def, k)};
		n->inputs = stk__program_alloc(p, (size_t)from->n_inputs, sizeof *n->inputs);
		n->varying = stk__program_alloc(p, (size_t)from->n_varying, sizeof *n->varying);
		n->when = stk__program_alloc(p, (size_t)from->n_when, sizeof *n->when);
		if (!n->inputs || !n->varying || !n->when)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for operator %s", from->name);
		for (int32_t k = 0; k < from->n_inputs; k++)
			p->values[n->inputs[k] = value_of(p, from->inputs[k])].consumers++;
		for (int32_t k = 0; k < from->n_varying; k++) {
			n->varying[k] = (struct stk_program_varying){from->varying[k].def, value_of(p, from->varying[k].node)};
			p->values[n->varying[k].value].consumers++;
		}
		for (int32_t k = 0; k < from->n_when; k++) {
			n->when[k] = (struct stk_program_condition){value_of(p, from->when[k].predicate), from->when[k].wanted};
			p->values[n->when[k].value].consumers++;
		}
		p->branches |= from->n_when > 0 || (n->def->flags & STK_OP_MERGES);
		n->cloned = (n->def->flags & STK_OP_CLONED) && !from->n_inputs && !from->n_varying && !n->on_gpu;
		const struct stk_desc *in = from->n_inputs ? &p->values[n->inputs[0]].desc : NULL;
		n->classes = stk__op_classes(n->def, from->args, in);
		n->lowers = !from->by_frame && n->classes != STK_CLASS_NEVER &&
			    (n->def->fetch || (in && !from->without_pass && stk__lowers(n->def, in)));
	}
	return STK_OK;
}

/* Sets `decides` of predicates and of the nodes from which they are computed, so that these run first in their chains. Which branches a sample takes is then
 * known before memory for the values in the branches is chosen, and the value that a merge will choose can be written directly to the merged value's memory:
 * sets stk_value.merge where that is possible. Clears `cloned` of nodes in branches if a gather reads their values. */
static void find_branches(struct stk_program *p)
{
	for (int32_t i = p->n_nodes - 1; i >= 0 && p->branches; i--) {
		struct stk_program_node *n = &p->nodes[i];
		if (n->def->flags & STK_OP_MERGES)
			p->nodes[p->values[n->inputs[0]].node].decides = true;
		for (int32_t k = 0; k < n->node->n_when; k++)
			p->nodes[p->values[n->when[k].value].node].decides = true;
		for (int32_t k = 0; k < stk__program_sources(n); k++) {
			struct stk_program_node *from = &p->nodes[p->values[stk__program_source(n, k)].node];
			from->decides |= n->decides;
			/* a gather reads the value of `from` from the slot; if `from` is in a branch, one chain makes it, where the condition is known */
			from->cloned &= n->gathers < 0 || !from->node->n_when;
		}
	}
	for (int32_t i = 0; i < p->n_nodes && p->branches; i++) {
		const struct stk_program_node *n = &p->nodes[i];
		for (int32_t k = 1; k <= 2 && (n->def->flags & STK_OP_MERGES) && !n->decides; k++) {
			struct stk_value *side = &p->values[n->inputs[k]];
			if (side->merge < 0 && !p->nodes[side->node].decides && side->on_gpu == n->on_gpu)
				side->merge = i;
		}
	}
}

/* Fails if a merge on the GPU chooses between a value in host memory and one on the GPU, since the merged value has one address. */
static enum stk_status check_sides(const struct stk_program *p, const struct stk_program_node *merge, struct stk_error *err)
{
	const struct stk_value *a = &p->values[merge->inputs[1]], *b = &p->values[merge->inputs[2]];
	if (!merge->on_gpu || a->on_gpu == b->on_gpu)
		return STK_OK;
	char on_gpu[96], on_cores[96];
	stk__node_title(p->nodes[(a->on_gpu ? a : b)->node].node, on_gpu, sizeof on_gpu);
	stk__node_title(p->nodes[(a->on_gpu ? b : a)->node].node, on_cores, sizeof on_cores);
	return stk__fail(err, STK_UNSUPPORTED,
		"the branches differ: %s leaves its value on the GPU, %s on the cores; add .gpu() to the latter, or .cpu() to the former",
		on_gpu, on_cores);
}

/* Fails if a value on the GPU is read on the cores: as an input, an argument or a condition. Allows it as the input of operators that copy it from the GPU or
 * read only its description. Also checks the inputs of merges. */
static enum stk_status check_places(const struct stk_program *p, struct stk_error *err)
{
	for (int32_t i = 0; i < p->n_nodes; i++) {
		const struct stk_program_node *n = &p->nodes[i];
		enum stk_status s = n->def->flags & STK_OP_MERGES ? check_sides(p, n, err) : STK_OK;
		if (s)
			return s;
		for (int32_t k = 0; k < stk__program_sources(n); k++) {
			bool input = k < n->node->n_inputs, argument = !input && k < n->node->n_inputs + n->node->n_varying;
			int32_t v = stk__program_source(n, k);
			bool host = input && stk__op_host_input(n->def, k);
			if (!p->values[v].on_gpu || (n->on_gpu && input && !host) ||
				(input && (n->def->flags & (STK_OP_DESCRIBES | STK_OP_FETCHES))))
				continue;
			char from[96], to[96];
			stk__node_title(p->nodes[p->values[v].node].node, from, sizeof from);
			stk__node_title(n->node, to, sizeof to);
			return stk__fail(err, STK_UNSUPPORTED,
				"%s reads on the cores what %s leaves on the GPU%s%s; bring it back with .cpu(), or make it on the cores (device=\"cpu\")",
				to, from,
				argument ? ": argument "
				: input  ? ""
					 : " as its condition",
				argument ? n->varying[k - n->node->n_inputs].def.name : "");
		}
	}
	return STK_OK;
}

/* Names the random streams: by the operator's name if the user gave one, else by its ordinal among the random operators, so that adding a resize changes no
 * draw. All operators with a seed of their own share one stream: with equal seeds they draw the same numbers, as in DALI, so that users can crop an image and
 * its mask alike. */
static void name_streams(struct stk_program *p)
{
	uint64_t ordinal = 0;
	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct stk_program_node *n = &p->nodes[i];
		if (!(n->def->flags & STK_OP_RANDOM))
			continue;
		const bool named = n->node->named && !n->def->reader; /* a reader's name identifies its data set */
		n->stream = named ? stk__random_stream(n->node->name) : ordinal;
		ordinal++;
		n->has_seed = stk__node_seed(n->node, &n->seed);
		if (n->has_seed)
			n->stream = stk__random_stream("operator.seed");
		else
			n->seed = p->seed;
	}
}

/* Returns the number of parts that a reader fetches for a sample; 0 if it fetches nothing. */
static int32_t parts_of(const struct stk_program_node *n)
{
	const struct stk_reader_def *reader = n->def->reader;
	return reader->parts ? reader->part_count(n->node->args) : reader->uri != NULL;
}

static const struct stk_graph_node *reader_node(const struct stk_program *p, int32_t reader)
{
	return p->nodes[p->readers[reader].node].node;
}

int32_t stk__program_reader_at(const struct stk_program *p, int32_t i)
{
	return i == 0 ? p->leading_reader : i <= p->leading_reader ? i - 1 : i;
}

enum stk_status stk__program_reader(const struct stk_program *p, const char *name, int32_t *out, struct stk_error *err)
{
	struct stk_text names = {0};
	for (int32_t i = 0; i < p->n_readers; i++) {
		*out = stk__program_reader_at(p, i);
		if (!name || strcmp(name, reader_node(p, *out)->name) == 0) {
			stk__text_free(&names);
			return STK_OK;
		}
		stk__text_add(&names, "%s\"%s\"", i ? ", " : "", reader_node(p, *out)->name);
	}
	enum stk_status s =
		stk__fail(err, STK_NOT_FOUND, "the pipeline has no reader \"%s\"; it has %s", name ? name : "", names.s ? names.s : "none");
	stk__text_free(&names);
	return s;
}

void stk__program_lead(struct stk_program *p, int32_t reader)
{
	p->leading_reader = reader;
	p->reader = p->readers[reader].node;
}

static enum stk_status find_readers(struct stk_program *p, struct stk_error *err)
{
	p->reader = -1;
	p->readers = stk__program_alloc(p, (size_t)p->n_nodes, sizeof *p->readers);
	if (!p->readers)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for readers");
	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct stk_program_node *n = &p->nodes[i];
		n->origin = -1;
		for (int32_t k = 0; k < n->node->n_inputs && n->origin < 0; k++)
			n->origin = p->nodes[p->values[n->inputs[k]].node].origin;
		if (!n->def->reader)
			continue;
		n->origin = n->reader = p->n_readers++;
		p->readers[n->reader] = (struct stk_program_reader){.node = i, .parts = parts_of(n)};
		p->reads |= p->readers[n->reader].parts > 0;
	}
	if (p->n_readers > STK_MAX_READERS)
		return stk__fail(err, STK_LIMIT, "the graph has %d readers; at most %d are supported", p->n_readers, STK_MAX_READERS);
	if (p->n_readers)
		stk__program_lead(p, 0);
	return STK_OK;
}

/* Sets `pruned` of external sources whose data no output needs, and of the operators that read them. Such a source is not called, so that its failure does not
 * end the run. If there is no reader and no output needs a source, nothing is pruned, since a source must determine where epochs end. */
static enum stk_status find_pruned(struct stk_program *p, struct stk_error *err)
{
	bool *needed = stk__program_alloc(p, (size_t)p->n_nodes, sizeof *needed);
	if (!needed)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline of %d operators", p->n_nodes);
	for (int32_t i = 0; i < p->n_outputs; i++)
		needed[p->values[p->outputs[i]].node] = true;
	for (int32_t i = p->n_nodes - 1; i >= 0; i--)
		for (int32_t k = 0; needed[i] && k < stk__program_sources(&p->nodes[i]); k++)
			needed[p->values[stk__program_source(&p->nodes[i], k)].node] = true;
	bool led = p->reader >= 0;
	for (int32_t i = 0; i < p->n_nodes; i++)
		led |= needed[i] && (p->nodes[i].def->flags & STK_OP_CALLBACK);
	for (int32_t i = 0; i < p->n_nodes && led; i++) {
		struct stk_program_node *n = &p->nodes[i];
		n->pruned = !needed[i] && (n->def->flags & STK_OP_CALLBACK);
		for (int32_t k = 0; !needed[i] && k < stk__program_sources(n); k++)
			n->pruned |= p->nodes[p->values[stk__program_source(n, k)].node].pruned;
	}
	return STK_OK;
}

static bool is_chain_node(const struct stk_program_node *n)
{
	return !n->cloned && !n->pruned && !(n->def->flags & STK_OP_CALLBACK);
}

/* Computes each node's level: the highest level of the nodes that it reads, where a user's source counts as one level higher. A node that gathers is two levels
 * above the nodes that it reads, since its gather runs in the level between them. */
static void find_levels(struct stk_program *p)
{
	bool source_driven = false;
	for (int32_t i = 0; i < p->n_nodes; i++)
		source_driven |= p->reader < 0 && (p->nodes[i].def->flags & STK_OP_CALLBACK) && !p->nodes[i].pruned;
	p->n_levels = 1;
	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct stk_program_node *n = &p->nodes[i];
		if (n->cloned || n->pruned || (n->def->flags & STK_OP_CALLBACK))
			continue;
		/* if a user's source determines the epochs, positions are known only after it has been called */
		int32_t first = source_driven ? 1 : 0;
		n->level = n->gathers >= 0 ? first + 1 : first;
		for (int32_t k = 0; k < stk__program_sources(n); k++) {
			const struct stk_program_node *from = &p->nodes[p->values[stk__program_source(n, k)].node];
			if (from->cloned && n->gathers < 0)
				continue;
			int32_t ready_level = from->cloned ? first : from->level;
			int32_t level = ready_level + (n->gathers >= 0 ? 2 : from->def->flags & STK_OP_CALLBACK ? 1 : 0);
			if (level > n->level)
				n->level = level;
		}
		if (n->level + 1 > p->n_levels)
			p->n_levels = n->level + 1;
	}
	p->n_levels += source_driven && p->n_levels == 1;
}

static int32_t find_root(int32_t *parent, int32_t i)
{
	while (parent[i] != i)
		i = parent[i] = parent[parent[i]];
	return i;
}

/* Sets heavy[root] for each chain that is worth a worker of its own: it decodes, processes images, calls a user's function, or waits for bytes. root: the node
 * that identifies the chain in parent[]. */
static void find_heavy(const struct stk_program *p, int32_t *parent, bool *heavy)
{
	for (int32_t i = 0; i < p->n_nodes; i++) {
		const struct stk_program_node *n = &p->nodes[i];
		bool costly = n->lowers || n->def->fetch || (n->def->flags & STK_OP_FUNCTION);
		for (int32_t k = 0; k < stk__program_sources(n) && !costly; k++) {
			const struct stk_program_node *from = &p->nodes[p->values[stk__program_source(n, k)].node];
			costly = from->reader >= 0 && p->readers[from->reader].parts > 0;
		}
		if (is_chain_node(n) && costly)
			heavy[find_root(parent, i)] = true;
	}
}

/* Merges chains, since samples of hundreds of fields would have as many chains, each with its own overhead: a level's light chains are merged into
 * LIGHT_CHAINS chains; if more than STK_MAX_CHAINS remain, all chains are merged into that many. */
static enum stk_status join_chains(struct stk_program *p, int32_t *parent, struct stk_error *err)
{
	enum { LIGHT_CHAINS = 16 };
	int32_t joined[STK_MAX_CHAINS];
	bool *heavy = stk__program_alloc(p, (size_t)p->n_nodes, sizeof *heavy);
	if (!heavy)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for chains");
	find_heavy(p, parent, heavy);
	for (int32_t level = 0; level < p->n_levels; level++)
		for (int32_t every_chain = 0; every_chain < 2; every_chain++) {
			int32_t limit = every_chain ? STK_MAX_CHAINS : LIGHT_CHAINS, k = 0;
			for (int32_t i = 0; i < p->n_nodes; i++) {
				if (p->nodes[i].level != level || !is_chain_node(&p->nodes[i]) || find_root(parent, i) != i ||
					(heavy[i] && !every_chain))
					continue;
				if (k < limit)
					joined[k] = i;
				else
					parent[i] = joined[k % limit];
				k++;
			}
		}
	return STK_OK;
}

/* Finds the chain of each node that is not cloned. Nodes of one level that pass values to each other form one chain, and so do a level's nodes on the GPU
 * that do not decode. Light chains may be merged. */
static enum stk_status find_chains(struct stk_program *p, struct stk_error *err)
{
	int32_t *parent = stk__program_alloc(p, (size_t)p->n_nodes, sizeof *parent);
	if (!parent)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for chains");
	for (int32_t i = 0; i < p->n_nodes; i++)
		parent[i] = i;
	for (int32_t i = 0; i < p->n_nodes; i++) {
		const struct stk_program_node *n = &p->nodes[i];
		for (int32_t k = 0; is_chain_node(n) && k < stk__program_sources(n); k++) {
			int32_t j = p->values[stk__program_source(n, k)].node;
			if (is_chain_node(&p->nodes[j]) && p->nodes[j].level == n->level)
				parent[find_root(parent, i)] = find_root(parent, j);
		}
	}
	/* A level's operators whose jobs run on the GPU form one chain: workers only describe these jobs. */
	for (int32_t i = 0, first = -1; i < p->n_nodes; i++) {
		const struct stk_program_node *n = &p->nodes[i];
		if (!is_chain_node(n) || !n->on_gpu || n->def->fetch)
			continue;
		first = first < 0 || p->nodes[first].level != n->level ? i : first;
		parent[find_root(parent, i)] = find_root(parent, first);
	}
	enum stk_status s = join_chains(p, parent, err);
	if (s)
		return s;
	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct stk_program_node *n = &p->nodes[i];
		if (is_chain_node(n)) {
			int32_t root = find_root(parent, i);
			struct stk_level *l = &p->levels[n->level];
			if (p->nodes[root].chain < 0)
				p->nodes[root].chain = l->n_chains++;
			n->chain = p->nodes[root].chain;
		}
	}
	return STK_OK;
}

/* Returns true if a chain (number `chain` of its level) must run a clone of node i, because a node of the chain reads i. A node that gathers needs no clone: it
 * reads the value from the slot, as its gather did one level earlier. */
static bool chain_reads(const struct stk_program *p, int32_t level, int32_t chain, int32_t i)
{
	for (int32_t j = 0; j < p->n_nodes; j++) {
		const struct stk_program_node *n = &p->nodes[j];
		if (!is_chain_node(n) || n->gathers >= 0 || n->level != level || n->chain != chain)
			continue;
		for (int32_t k = 0; k < stk__program_sources(n); k++)
			if (p->values[stk__program_source(n, k)].node == i)
				return true;
	}
	return false;
}

/* Sets the level and chain that write the values of cloned node i to the slot: the first chain that reads the node, in a level that has ended before a gather
 * reads the values; if there is no such chain, the first chain of the first level. */
static void home_of_clone(struct stk_program *p, int32_t i)
{
	struct stk_program_node *n = &p->nodes[i];
	int32_t first = p->levels[0].n_callbacks && p->reader < 0 ? 1 : 0, last = p->n_levels - 1;
	for (int32_t j = 0; j < p->n_nodes; j++)
		for (int32_t k = 0; p->nodes[j].gathers >= 0 && !p->nodes[j].pruned && k < stk__program_sources(&p->nodes[j]); k++)
			if (p->values[stk__program_source(&p->nodes[j], k)].node == i && p->nodes[j].level - 2 < last)
				last = p->nodes[j].level - 2;
	for (int32_t l = first; l <= last; l++)
		for (int32_t c = 0; c < p->levels[l].n_chains; c++)
			if (chain_reads(p, l, c, i)) {
				n->level = l;
				n->chain = c;
				return;
			}
	n->level = first;
	if (p->levels[first].n_chains == 0)
		p->levels[first].n_chains = 1;
	n->chain = 0;
}

static bool must_be_kept(const struct stk_program *p, int32_t v)
{
	const struct stk_program_node *from = &p->nodes[p->values[v].node];
	if (p->values[v].is_output)
		return true;
	for (int32_t j = 0; j < p->n_nodes; j++) {
		const struct stk_program_node *n = &p->nodes[j];
		/* a cloned node is skipped, since its clones run in the chains that read them */
		for (int32_t k = 0; !n->cloned && !n->pruned && k < stk__program_sources(n); k++)
			if (stk__program_source(n, k) == v &&
				!(is_chain_node(n) && n->gathers < 0 &&
					(from->cloned || (n->level == from->level && n->chain == from->chain))))
				return true;
	}
	return false;
}

static void keep_values(struct stk_program *p)
{
	for (int32_t v = 0; v < p->n_values; v++) {
		if (!must_be_kept(p, v))
			continue;
		p->values[v].slot = p->n_slot_values;
		p->slot_values[p->n_slot_values++] = v;
		struct stk_program_node *n = &p->nodes[p->values[v].node];
		if (n->cloned && n->chain < 0)
			home_of_clone(p, p->values[v].node);
	}
}

static bool chain_uses(const struct stk_program *p, const struct stk_chain *c, int32_t v)
{
	for (int32_t i = 0; i < c->n_nodes; i++)
		for (int32_t k = 0; k < stk__program_sources(&p->nodes[c->nodes[i]]); k++)
			if (stk__program_source(&p->nodes[c->nodes[i]], k) == v)
				return true;
	return false;
}

/* Sets c->kept_values to the values of earlier levels that the chain reads from the slot. In a program with branches, sets it to all values of earlier levels
 * in the slot, since chains then also read predicates that are not inputs of their operators. */
static enum stk_status find_kept(struct stk_program *p, int32_t level, struct stk_chain *c, struct stk_error *err)
{
	c->kept_values = stk__program_alloc(p, (size_t)p->n_slot_values, sizeof *c->kept_values);
	if (!c->kept_values)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a chain");
	for (int32_t k = 0; k < p->n_slot_values; k++) {
		int32_t v = p->slot_values[k];
		if (p->nodes[p->values[v].node].level < level && (p->branches || chain_uses(p, c, v)))
			c->kept_values[c->n_kept++] = k;
	}
	return STK_OK;
}

/* Sets c->is_read of chain number `index` of the level: the values that clones must make in this chain. A reader of many fields is cloned into many
 * chains, each of which reads a few fields. */
static enum stk_status find_wanted(struct stk_program *p, int32_t level, int32_t index, struct stk_chain *c, struct stk_error *err)
{
	c->is_read = stk__program_alloc(p, (size_t)p->n_values, sizeof *c->is_read);
	if (!c->is_read)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a chain");
	for (int32_t i = 0; i < c->n_nodes; i++) {
		const struct stk_program_node *n = &p->nodes[c->nodes[i]];
		for (int32_t k = 0; k < stk__program_sources(n); k++)
			c->is_read[stk__program_source(n, k)] = true;
		for (int32_t v = n->first_value; v < n->first_value + n->node->n_outputs && n->level == level && n->chain == index; v++)
			c->is_read[v] |= p->values[v].slot >= 0;
	}
	return STK_OK;
}

/* Lists the nodes of chain number `index` of the level and the clones that it runs: first predicates and the nodes from which they are computed, then the
 * others, in the order of the graph. Then finds the chain's readers, kept values, wanted values and groups. */
static enum stk_status fill_chain(struct stk_program *p, int32_t level, int32_t index, struct stk_error *err)
{
	struct stk_chain *c = &p->levels[level].chains[index];
	c->nodes = stk__program_alloc(p, (size_t)p->n_nodes, sizeof *c->nodes);
	if (!c->nodes)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a chain");
	for (int32_t k = p->branches ? 0 : p->n_nodes; k < 2 * p->n_nodes; k++) {
		int32_t i = k % p->n_nodes;
		const struct stk_program_node *n = &p->nodes[i];
		bool in_chain = n->level == level && n->chain == index && (n->cloned || is_chain_node(n));
		if (n->decides == (k < p->n_nodes) && (n->cloned ? in_chain || chain_reads(p, level, index, i) : in_chain)) {
			c->nodes[c->n_nodes++] = i;
			if (n->reader >= 0 && p->readers[n->reader].parts)
				c->reads |= 1ull << n->reader;
		}
	}
	if (c->n_nodes > p->max_nodes)
		p->max_nodes = c->n_nodes;
	enum stk_status s = find_kept(p, level, c, err);
	s = s ? s : find_wanted(p, level, index, c, err);
	return s ? s : stk__fuse(p, c, err);
}

static void measure_levels(struct stk_program *p)
{
	p->max_chains = 1;
	for (int32_t l = 0; l < p->n_levels; l++) {
		p->max_chains = p->levels[l].n_chains > p->max_chains ? p->levels[l].n_chains : p->max_chains;
		for (int32_t c = 0; c < p->levels[l].n_chains; c++)
			p->last_read_level = p->levels[l].chains[c].reads ? l : p->last_read_level;
	}
}

static enum stk_status make_levels(struct stk_program *p, struct stk_error *err)
{
	find_levels(p);
	p->levels = stk__program_alloc(p, (size_t)p->n_levels, sizeof *p->levels);
	if (!p->levels)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d levels", p->n_levels);
	for (int32_t l = 0; l < p->n_levels; l++) {
		p->levels[l].gathers = stk__program_alloc(p, (size_t)p->n_nodes, sizeof(int32_t));
		p->levels[l].callbacks = stk__program_alloc(p, (size_t)p->n_nodes, sizeof(int32_t));
		if (!p->levels[l].gathers || !p->levels[l].callbacks)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a level");
	}
	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct stk_level *l = &p->levels[p->nodes[i].level];
		if (p->nodes[i].pruned)
			continue;
		if (p->nodes[i].def->flags & STK_OP_CALLBACK)
			l->callbacks[l->n_callbacks++] = i;
		else if (p->nodes[i].gathers >= 0)
			l[-1].gathers[l[-1].n_gathers++] = i;
	}
	enum stk_status s = find_chains(p, err);
	if (s)
		return s;
	keep_values(p);
	for (int32_t l = 0; l < p->n_levels; l++) {
		p->levels[l].chains = stk__program_alloc(p, (size_t)p->levels[l].n_chains, sizeof *p->levels[l].chains);
		if (!p->levels[l].chains)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for chains");
		p->levels[l].first_step = p->n_steps;
		for (int32_t c = 0; c < p->levels[l].n_chains; c++)
			if ((s = fill_chain(p, l, c, err)))
				return s;
		p->levels[l].n_steps = p->n_steps - p->levels[l].first_step;
	}
	measure_levels(p);
	return STK_OK;
}

static enum stk_status set_up_nodes(struct stk_program *p, const struct stk_access *access, struct stk_error *err)
{
	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct stk_program_node *n = &p->nodes[i];
		if ((n->def->flags & (STK_OP_CALLBACK | STK_OP_FUNCTION)) && !n->node->has_source && !n->pruned)
			return stk__fail(
				err, STK_INVALID, "\"%s\" has no source yet: give it callbacks before the pipeline is made", n->node->name);
		const bool opens = n->def->reader && n->def->reader->open;
		if (!opens && !n->def->setup)
			continue;
		enum stk_status s = opens ? n->def->reader->open(n->node->args, access, &n->shared, err)
					  : n->def->setup(n->node->args, &n->shared, err);
		if (s) {
			char title[STK_MAX_TITLE];
			stk__node_title(n->node, title, sizeof title);
			stk__error_set_op(err, title);
			return s;
		}
		n->set_up = true;
	}
	return STK_OK;
}

enum stk_status stk__program_create(struct stk_graph *graph, uint64_t seed, bool fuse, bool on_gpu, const struct stk_access *access,
	struct stk_program **out, struct stk_error *err)
{
	if (!graph->n_outputs)
		return stk__fail(err, STK_INVALID, "the graph has no outputs: name them with stk_graph_output");
	struct stk_program *p = stk__calloc(1, sizeof *p);
	if (!p)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline");
	p->refs = 1;
	graph->frozen = true;
	p->graph = stk__graph_ref(graph);
	p->seed = seed;
	p->fused = fuse;
	p->on_gpu = on_gpu;
	enum stk_status s = make_nodes(p, err);
	if (s || (s = check_places(p, err)) || (s = find_readers(p, err)))
		goto out;
	find_branches(p);
	name_streams(p);
	p->n_outputs = graph->n_outputs;
	p->outputs = stk__program_alloc(p, (size_t)graph->n_outputs, sizeof *p->outputs);
	if (!p->outputs) {
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for outputs");
		goto out;
	}
	for (int32_t i = 0; i < graph->n_outputs; i++) {
		p->outputs[i] = value_of(p, graph->outputs[i]);
		p->values[p->outputs[i]].is_output = true;
	}
	if ((s = find_pruned(p, err)) == STK_OK && (s = make_levels(p, err)) == STK_OK)
		s = set_up_nodes(p, access, err);
out:
	if (s) {
		stk__program_unref(p);
		p = NULL;
	}
	*out = p;
	return s;
}

struct stk_program *stk__program_ref(struct stk_program *p)
{
	atomic_fetch_add(&p->refs, 1);
	return p;
}

void stk__program_unref(struct stk_program *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) > 1)
		return;
	for (int32_t i = 0; p->nodes && i < p->n_nodes; i++)
		if (p->nodes[i].set_up && p->nodes[i].def->teardown)
			p->nodes[i].def->teardown(p->nodes[i].shared);
	stk_graph_destroy(p->graph);
	stk__free(p);
}
