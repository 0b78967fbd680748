/* SPDX-License-Identifier: Apache-2.0
 * Describes a program as text or JSON, from the same structures that execution uses. */
#include "graph/program.h"

#include "base/text.h"

static void add_shape(struct stk_text *t, const struct stk_desc *d)
{
	stk__text_add(t, "%s%s%s (", d->dtype == STK_NO_DTYPE ? "any" : stk_dtype_name(d->dtype), d->layout[0] ? " " : "", d->layout);
	for (int32_t k = 0; k < d->ndim; k++) {
		stk__text_add(t, "%s", k ? ", " : "");
		if (d->shape[k] < 0)
			stk__text_add(t, "?");
		else
			stk__text_add(t, "%lld", (long long)d->shape[k]);
	}
	stk__text_add(t, d->ndim < 0 ? "...)" : ")");
}

static const char *group_kind(const struct stk_program *p, const struct stk_group *g)
{
	const struct stk_op_def *head = p->nodes[g->nodes[0]].def;
	if (p->nodes[g->nodes[0]].node->by_frame)
		return "each frame";
	if (!g->pass)
		return head->reader ? "reader" : "run";
	return head->fetch ? "decode + pass" : "pass";
}

static const char *step_kind(const struct stk_program_node *n)
{
	if (n->def->fetch)
		return "decode the window";
	if (n->classes & STK_CLASS_SAMPLER)
		return "sample";
	if (n->classes & STK_CLASS_POINTWISE)
		return "pointwise";
	if (n->classes & STK_CLASS_HOLE)
		return "hole";
	return n->classes & STK_CLASS_FILL ? "window, fill" : "geometry";
}

/* Appends the conditions under which a group runs, as in ", when a and not b". */
static void when_text(const struct stk_program *p, const struct stk_group *g, struct stk_text *t)
{
	for (int32_t k = 0; k < g->n_when; k++) {
		char title[96];
		stk__node_title(p->nodes[p->values[g->when[k].value].node].node, title, sizeof title);
		stk__text_add(t, "%s%s%s", k ? " and " : ", when ", g->when[k].expected ? "" : "not ", title);
	}
}

static void when_json(const struct stk_program *p, const struct stk_group *g, struct stk_text *t)
{
	stk__text_add(t, ", \"when\": [");
	for (int32_t k = 0; k < g->n_when; k++) {
		const struct stk_program_node *n = &p->nodes[p->values[g->when[k].value].node];
		stk__text_add(t, "%s{\"operator\": \"%s\", \"ordinal\": %d, \"wanted\": %s}", k ? ", " : "", n->def->name,
			(int)(n - p->nodes), g->when[k].expected ? "true" : "false");
	}
	stk__text_add(t, "]");
}

static void group_text(const struct stk_program *p, const struct stk_group *g, struct stk_text *t)
{
	stk__text_add(t, "    %s%-13s ", !p->on_gpu ? "" : g->step >= 0 ? "gpu " : "    ", group_kind(p, g));
	for (int32_t k = 0; k < g->count; k++) {
		const struct stk_program_node *n = &p->nodes[g->nodes[k]];
		stk__text_add(t, "%s%s", k ? " -> " : "", n->def->name);
		if (g->pass)
			stk__text_add(t, " [%s]", step_kind(n));
	}
	const struct stk_program_node *last = &p->nodes[g->nodes[g->count - 1]];
	for (int32_t o = 0; o < last->node->n_outputs; o++) {
		const struct stk_value *v = &p->values[last->first_value + o];
		stk__text_add(t, "%s ", o ? "," : " =>");
		add_shape(t, &v->desc);
		stk__text_add(t, v->is_output ? " in the slot, output" : v->slot >= 0 ? " in the slot" : g->feeds ? " not stored" : "");
	}
	when_text(p, g, t);
	stk__text_add(t, "\n");
}

static void level_text(const struct stk_program *p, int32_t l, struct stk_text *t)
{
	const struct stk_level *level = &p->levels[l];
	stk__text_add(t, "level %d\n", l);
	for (int32_t c = 0; c < level->n_callbacks; c++)
		stk__text_add(t, "  callback thread: %s\n", p->nodes[level->callbacks[c]].node->name);
	for (int32_t c = 0; c < level->n_chains; c++) {
		stk__text_add(t, "  chain %d, a sample at a time%s\n", c, level->chains[c].reads ? ", after its bytes were read" : "");
		for (int32_t g = 0; g < level->chains[c].n_groups; g++)
			group_text(p, &level->chains[c].groups[g], t);
	}
	for (int32_t b = 0; b < level->n_gathers; b++) {
		const struct stk_op_def *def = p->nodes[level->gathers[b]].def;
		if (def->flags & STK_OP_FETCHES)
			stk__text_add(t, "  over the whole batch: a copy from the GPU to the cores\n");
		else
			stk__text_add(t, "  over the whole batch: what %s needs to know of it\n", def->name);
	}
	if (level->n_steps > 0)
		stk__text_add(t, "  the groups marked gpu are described by the chains and run there, a step each for the whole batch\n");
}

static void group_json(const struct stk_program *p, const struct stk_group *g, struct stk_text *t)
{
	stk__text_add(t, "{\"kind\": \"%s\", \"operators\": [", group_kind(p, g));
	for (int32_t k = 0; k < g->count; k++)
		stk__text_add(t, "%s{\"name\": \"%s\", \"step\": \"%s\"}", k ? ", " : "", p->nodes[g->nodes[k]].def->name,
			g->pass ? step_kind(&p->nodes[g->nodes[k]]) : "run");
	stk__text_add(t, "], \"device\": \"%s\"", g->step >= 0 ? "gpu" : "cpu");
	if (g->n_when)
		when_json(p, g, t);
	stk__text_add(t, "}");
}

static void level_json(const struct stk_program *p, int32_t l, struct stk_text *t)
{
	const struct stk_level *level = &p->levels[l];
	stk__text_add(
		t, "%s{\"callbacks\": %d, \"batch_operators\": %d, \"chains\": [", l ? ", " : "", level->n_callbacks, level->n_gathers);
	for (int32_t c = 0; c < level->n_chains; c++) {
		stk__text_add(t, "%s{\"reads\": %s, \"groups\": [", c ? ", " : "", level->chains[c].reads ? "true" : "false");
		for (int32_t g = 0; g < level->chains[c].n_groups; g++) {
			stk__text_add(t, "%s", g ? ", " : "");
			group_json(p, &level->chains[c].groups[g], t);
		}
		stk__text_add(t, "]}");
	}
	stk__text_add(t, "]}");
}

void stk__program_explain(const struct stk_program *p, bool json, bool resident, bool recipes, struct stk_text *out)
{
	if (json)
		stk__text_add(out, "{\"fused\": %s, \"resident\": %s, \"recipes\": %s, \"levels\": [", p->fused ? "true" : "false",
			resident ? "true" : "false", recipes ? "true" : "false");
	for (int32_t l = 0; l < p->n_levels; l++)
		json ? level_json(p, l, out) : level_text(p, l, out);
	if (json)
		stk__text_add(out, "]}\n");
}
