/* SPDX-License-Identifier: Apache-2.0
 * One sample through one chain: operators in order, values in the worker's scratch or in their place in the slot. */
#include "exec/device.h"

#include <string.h>

/* Fills the call of one operator for this sample: arguments (those of the graph, or a copy with the sample's own), inputs, outputs, stream. */
enum stk_status stk__call_prepare(const struct stk_chain_run *run, int32_t index, struct stk_call *call, struct stk_error *err)
{
	struct stk_exec_worker *w = run->worker;
	const struct stk_program *g = run->pipeline->program;
	const struct stk_program_node *n = &g->nodes[index];
	const struct stk_sample_state *s = &run->record->samples[run->sample];
	*call = (struct stk_call){.def = n->def,
		.args = n->node->args,
		.shared = n->shared,
		.out = &w->values[n->first_value],
		.n_in = n->node->n_inputs,
		.n_out = n->node->n_outputs,
		.place = s->place,
		.tools = &w->tools};
	if (n->node->n_inputs) {
		struct stk_tensor *in = stk__arena_take(&w->arena, (size_t)n->node->n_inputs * sizeof *in);
		if (!in)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
		for (int32_t k = 0; k < n->node->n_inputs; k++)
			in[k] = w->values[n->inputs[k]];
		call->in = in;
	}
	if (n->node->n_varying) {
		void *args = stk__arena_take(&w->arena, n->def->args_size);
		if (!args)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
		memcpy(args, n->node->args, n->def->args_size);
		call->args = args;
		for (int32_t k = 0; k < n->node->n_varying; k++) {
			enum stk_status s2 = stk__arg_set_sample(&n->varying[k].def, &w->values[n->varying[k].value], args, &w->arena, err);
			if (s2)
				return s2;
		}
	}
	if (n->def->state_size) {
		call->state = stk__arena_take(&w->arena, n->def->state_size);
		if (!call->state)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
		memset(call->state, 0, n->def->state_size);
	}
	if (n->def->flags & STK_OP_RANDOM)
		call->random = stk__random(n->seed, n->stream, s->place.epoch, s->place.position);
	if (n->gathers >= 0)
		call->gathered = run->record->gathered[n->gathers].data;
	if (index == g->reader) {
		call->bytes = s->request.data ? s->request.data : s->staged;
		call->bytes_size = s->request.size;
	}
	for (int32_t k = 0; k < call->n_out; k++)
		call->out[k] = (struct stk_tensor){0};
	return STK_OK;
}

/* A clone computes everywhere and is kept once: by the chain that is its home. */
static bool keeps(const struct stk_chain_run *run, const struct stk_value *v)
{
	const struct stk_program_node *n = &run->pipeline->program->nodes[v->node];
	return v->slot >= 0 && (!n->cloned || (n->level == run->level && n->chain == run->chain));
}

/* Gives a value that was inferred its memory: in the slot, or in scratch. A view (data is set) stays unless the slot must have it. */
enum stk_status stk__value_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err)
{
	const struct stk_value *v = &run->pipeline->program->values[value];
	struct stk_tensor *t = &run->worker->values[value];
	int64_t bytes = stk_desc_bytes(&t->desc);
	if (bytes < 0)
		return stk__fail(err, STK_LIMIT, "the output is too large to be addressed");
	if (keeps(run, v)) {
		const void *view = t->data;
		if (!stk__slot_place(run->record->slot, v->slot, run->sample, &t->desc))
			return stk__fail(err, STK_NO_MEMORY, "out of memory for an output of %lld bytes", (long long)bytes);
		t->data = run->record->slot->values[v->slot].samples[run->sample].data;
		if (view)
			memcpy(t->data, view, (size_t)bytes);
		return STK_OK;
	}
	if (t->data)
		return STK_OK;
	if ((size_t)bytes > run->pipeline->config.memory_limit)
		return stk__fail(err, STK_LIMIT, "a value of %lld bytes is over memory_limit, %zu bytes", (long long)bytes,
			run->pipeline->config.memory_limit);
	t->data = stk__arena_take(&run->worker->arena, (size_t)bytes);
	return t->data ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a value of %lld bytes", (long long)bytes);
}

static enum stk_status run_single(const struct stk_chain_run *run, int32_t index, struct stk_error *err)
{
	const struct stk_program_node *n = &run->pipeline->program->nodes[index];
	struct stk_call call;
	enum stk_status s = stk__call_prepare(run, index, &call, err);
	if (s || (s = n->def->infer(&call, err)))
		return s;
	bool all_views = true;
	for (int32_t k = 0; k < call.n_out; k++) {
		all_views &= call.out[k].data != NULL;
		if ((s = stk__value_place(run, n->first_value + k, err)))
			return s;
	}
	return all_views || !n->def->run_cpu ? STK_OK : n->def->run_cpu(&call, err);
}

/* Values that earlier levels left in the slot. */
static void load_kept(const struct stk_chain_run *run)
{
	const struct stk_program *g = run->pipeline->program;
	for (int32_t k = 0; k < g->n_slot_values; k++) {
		int32_t v = g->slot_values[k];
		if (g->nodes[g->values[v].node].level < run->level)
			run->worker->values[v] = run->record->slot->values[k].samples[run->sample];
	}
}

enum stk_status stk__chain_run(struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, const struct stk_chain *chain,
	int32_t level, int32_t index, int32_t sample, struct stk_error *err)
{
	const struct stk_chain_run run = {p, w, r, level, index, sample};
	enum stk_status s = STK_OK;
	if (level > 0)
		load_kept(&run);
	for (int32_t g = 0; g < chain->n_groups && s == STK_OK; g++) {
		const struct stk_group *group = &chain->groups[g];
		s = group->step >= 0 ? stk__device_describe(&run, group, err)
		    : group->pass    ? stk__pass_group_run(&run, group, err)
				     : run_single(&run, group->nodes[0], err);
		if (s && err) {
			char title[96];
			stk__node_title(p->program->nodes[group->nodes[0]].node, title, sizeof title);
			stk__error_set_op(err, title);
		}
	}
	stk__arena_reset(&w->arena);
	atomic_store_explicit(&w->scratch_peak, w->arena.peak, memory_order_relaxed);
	return s;
}

/* Samples whose arguments cannot be had are left out: their chain fails for the same reason, and there the policy applies to them. */
enum stk_status stk__gather_run(
	struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, int32_t node, int32_t *blamed, struct stk_error *err)
{
	const struct stk_program_node *n = &p->program->nodes[node];
	struct stk_call *calls = stk__arena_take(&w->arena, (size_t)r->count * sizeof *calls);
	int32_t *samples = stk__arena_take(&w->arena, (size_t)r->count * sizeof *samples);
	enum stk_status s = calls && samples ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a batch's scratch");
	int32_t count = 0;
	for (int32_t i = 0; i < r->count && s == STK_OK; i++) {
		if (!r->samples[i].present)
			continue;
		const struct stk_chain_run run = {p, w, r, n->level, -1, i};
		load_kept(&run);
		enum stk_status prepared = stk__call_prepare(&run, node, &calls[count], err);
		if (prepared == STK_NO_MEMORY)
			s = prepared;
		if (prepared)
			continue;
		calls[count].gathered = NULL;
		calls[count].out = NULL;
		calls[count].n_out = 0;
		samples[count++] = i;
	}
	if (s == STK_OK && count > 0)
		s = n->def->gather(calls, count, &r->gathered[n->gathers], err);
	*blamed = s && err->sample >= 0 && err->sample < count ? samples[err->sample] : -1;
	stk__arena_reset(&w->arena);
	return s;
}
