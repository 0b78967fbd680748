/* SPDX-License-Identifier: Apache-2.0
 * Fusion: decides which operators of a chain make one pass over an image. It reads the operators' struct stk_op_def (lower, classes), never their names.
 *
 * An operator joins the pass of the operator that makes its input if no other operator reads that input, both have a function `lower`, both run in the same
 * branch and on the same device, and its steps fit into the pass (stk__pass_joins). The job of an operator without a pass may run as part of the next
 * operator's job, so that its result is not stored. Fusion changes no value, so every choice in this file affects only speed. */
#include "graph/program.h"

#include <string.h>

/* Returns true if the pass that begins with this node processes an image plane by plane, because the layout has dims after C. */
static bool by_plane(const struct stk_program *p, const struct stk_program_node *head)
{
	const char *layout = head->node->n_inputs ? p->values[head->inputs[0]].desc.layout : "", *c = strchr(layout, 'C');
	return c && c[1];
}

/* Returns the maximum number of pointwise and fill steps that an operator adds to a pass. */
static int32_t steps_of(const struct stk_program_node *n)
{
	int32_t pointwise = n->def->steps ? n->def->steps : 1;
	return (n->classes & STK_CLASS_POINTWISE ? pointwise : 0) + (n->classes & STK_CLASS_FILL ? 1 : 0);
}

static bool joins(const struct stk_program *p, const struct stk_program_node *last, unsigned sofar, const struct stk_program_node *next)
{
	if (!p->fused || !stk__program_same_branch(last, next) || !next->lowers || next->def->fetch || next->on_gpu != last->on_gpu ||
		next->inputs[0] != last->first_value)
		return false;
	const struct stk_value *value = &p->values[last->first_value];
	return value->consumers == 1 && value->slot < 0 && stk__pass_joins(sofar, next->classes);
}

/* Returns the GPU step that makes the image which pass k reads, if a single operator of the same chain makes it and nothing else reads it; otherwise -1. */
static int32_t image_step(const struct stk_program *p, const struct stk_chain *chain, int32_t k)
{
	const struct stk_group *pass = &chain->groups[k];
	const struct stk_program_node *head = &p->nodes[pass->nodes[0]];
	if (!p->fused || !pass->pass || head->def->fetch || !head->on_gpu || !head->node->n_inputs)
		return -1;
	const struct stk_value *image = &p->values[head->inputs[0]];
	if (image->consumers != 1 || image->slot >= 0 || image->merge >= 0)
		return -1;
	for (int32_t i = k - 1; i >= 0; i--)
		if (!chain->groups[i].pass && chain->groups[i].nodes[0] == image->node)
			return chain->groups[i].step;
	return -1;
}

/* Returns true if the next group may run the job of group k as part of its own job. */
static bool feeds(const struct stk_program *p, const struct stk_chain *chain, int32_t k)
{
	if (!p->fused || k + 1 >= chain->n_groups || chain->groups[k].pass || chain->groups[k + 1].pass)
		return false;
	const struct stk_program_node *n = &p->nodes[chain->groups[k].nodes[0]], *next = &p->nodes[chain->groups[k + 1].nodes[0]];
	if (!(n->def->flags & STK_OP_FEEDS) || !(next->def->flags & STK_OP_ABSORBS) || next->inputs[0] != n->first_value)
		return false;
	const struct stk_value *value = &p->values[n->first_value];
	return !n->on_gpu && !next->on_gpu && !n->node->by_frame && !next->node->by_frame && stk__program_same_branch(n, next) &&
	       value->consumers == 1 && value->slot < 0 && value->merge < 0;
}

enum stk_status stk__fuse(struct stk_program *p, struct stk_chain *chain, struct stk_error *err)
{
	int32_t n = chain->n_nodes;
	int32_t *order = stk__program_alloc(p, (size_t)n, sizeof *order);
	bool *grouped = stk__program_alloc(p, (size_t)n, sizeof *grouped);
	int32_t *last_of = stk__program_alloc(p, (size_t)n, sizeof *last_of); /* for each group: position of its last node in the chain */
	chain->groups = stk__program_alloc(p, (size_t)n, sizeof *chain->groups);
	if (!order || !grouped || !last_of || !chain->groups)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a chain's groups");
	int32_t used = 0;
	for (int32_t i = 0; i < n; i++) {
		if (grouped[i])
			continue;
		const struct stk_program_node *last = &p->nodes[chain->nodes[i]];
		struct stk_group g = {.nodes = order + used, .pass = last->lowers, .when = last->when, .n_when = last->node->n_when};
		unsigned classes = last->classes;
		int32_t steps = steps_of(last);
		bool planes = by_plane(p, last);
		order[used++] = chain->nodes[i];
		g.count = 1;
		int32_t end = i;
		for (int32_t j = i + 1; g.pass && j < n; j++) {
			const struct stk_program_node *next = &p->nodes[chain->nodes[j]];
			if (grouped[j] || !joins(p, last, classes, next) || steps + steps_of(next) > STK_PASS_MAX_STEPS ||
				(planes && (next->classes & STK_CLASS_MIXES)))
				continue;
			grouped[j] = true;
			order[used++] = chain->nodes[j];
			g.count++;
			classes |= next->classes;
			steps += steps_of(next);
			last = next;
			end = j;
		}
		/* Groups run in the order of their last nodes, so all values that a group's nodes read have been made. */
		int32_t k = chain->n_groups++;
		for (; k > 0 && last_of[k - 1] > end; k--) {
			chain->groups[k] = chain->groups[k - 1];
			last_of[k] = last_of[k - 1];
		}
		chain->groups[k] = g;
		last_of[k] = end;
	}
	for (int32_t k = 0; k < chain->n_groups; k++) {
		const struct stk_program_node *head = &p->nodes[chain->groups[k].nodes[0]];
		chain->groups[k].fixed = stk__program_fixed(p, chain->groups[k].nodes[0]);
		chain->groups[k].step = head->on_gpu ? p->n_steps++ : -1;
		chain->groups[k].image_step = image_step(p, chain, k);
		chain->groups[k].feeds = feeds(p, chain, k);
		p->n_decodes += head->on_gpu && head->def->fetch;
	}
	return STK_OK;
}
