/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares the call of one operator for one sample, and the memory of its outputs. */
#include "exec/chain.h"
#include "exec/fetch.h"
#include "op/dims.h"

#include <string.h>

/* Sets call->uri to the sample's URI at reader number `origin`, or at the leading reader if `origin` is negative. */
static enum stk_status name_sample(const struct stk_chain_run *run, int32_t origin, struct stk_call *call, struct stk_error *err)
{
	char uri[STK_MAX_URI];
	int32_t reader = origin < 0 ? run->pipeline->program->leading_reader : origin;
	size_t n = stk__reader_uri(run->pipeline, reader, &run->record->samples[run->sample].place, uri, sizeof uri);
	n = n < sizeof uri ? n : sizeof uri - 1;
	char *name = stk__arena_take(&run->worker->arena, n + 1);
	if (!name)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's name");
	memcpy(name, uri, n);
	name[n] = '\0';
	call->uri = name;
	return STK_OK;
}

/* Sets call->gathered to the result of the node's gather. For a node in a branch, also sets call->index and call->batch so that they count only the samples
 * that take the branch. */
static void set_gathered(const struct stk_chain_run *run, const struct stk_program_node *n, struct stk_call *call)
{
	const struct stk_gather_readers *readers = &run->record->gather_readers[n->gathers];
	call->gathered = run->record->gathered[n->gathers].data;
	if (!n->node->n_when)
		return;
	call->index = readers->rank[run->sample];
	call->batch = readers->count;
}

/* Returns the value. If the operator runs for one frame and the value is a sequence, returns only that frame. */
static struct stk_tensor read_value(const struct stk_chain_run *run, struct stk_tensor value)
{
	if (run->frame && stk__is_sequence(&value.desc))
		stk__frame_of_sequence(&value, run->frame - 1);
	return value;
}

static enum stk_status set_inputs(
	const struct stk_chain_run *run, const struct stk_program_node *n, struct stk_call *call, struct stk_error *err)
{
	struct stk_tensor *in = stk__arena_take(&run->worker->arena, (size_t)n->node->n_inputs * sizeof *in);
	if (!in)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	for (int32_t k = 0; k < n->node->n_inputs; k++) {
		in[k] = run->worker->values[n->inputs[k]];
		if (k == 0)
			stk__layout_name(n->def, &in[0].desc);
		in[k] = read_value(run, in[k]);
		enum stk_status s =
			stk__input_takes(n->def, k, in[k].desc.dtype, err); /* the graph may not know the types of merged values */
		if (s)
			return s;
	}
	call->in = in;
	return STK_OK;
}

/* Sets the call's arguments to a copy of the graph's arguments. Arguments that vary get their values from the sample, or from its current frame. */
static enum stk_status set_args(
	const struct stk_chain_run *run, const struct stk_program_node *n, struct stk_call *call, struct stk_error *err)
{
	struct stk_arena *arena = &run->worker->arena;
	void *args = stk__arena_take(arena, n->def->args_size);
	if (!args)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	memcpy(args, n->node->args, n->def->args_size);
	call->args = args;
	for (int32_t k = 0; k < n->node->n_varying; k++) {
		const struct stk_tensor value = read_value(run, run->worker->values[n->varying[k].value]);
		enum stk_status s = stk__arg_set_sample(&n->varying[k].def, &value, args, arena, err);
		if (s)
			return s;
	}
	return STK_OK;
}

/* Fills the call for this sample. Its outputs have no data yet: `infer` describes the outputs and sets the data of those that are views, and
 * stk__value_place sets the data of the others. */
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
		.place = n->reader >= 0 ? stk__reader_place(run->pipeline, n->reader, &s->place) : s->place,
		.index = run->sample,
		.batch = run->record->count,
		.frame = run->common,
		.user = n->node->has_source ? &n->node->source : NULL,
		.tools = &w->tools};
	enum stk_status status = n->node->n_inputs ? set_inputs(run, n, call, err) : STK_OK;
	if (status || (n->node->n_varying && (status = set_args(run, n, call, err))))
		return status;
	if (n->def->state_size) {
		call->state = stk__arena_take(&w->arena, n->def->state_size);
		if (!call->state)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
		memset(call->state, 0, n->def->state_size);
	}
	if (n->def->flags & STK_OP_RANDOM)
		call->random = stk__random(n->seed, n->stream, s->place.epoch, s->place.position);
	if ((n->def->flags & STK_OP_NAMES) && name_sample(run, n->origin, call, err))
		return STK_NO_MEMORY;
	if (n->gathers >= 0)
		set_gathered(run, n, call);
	if (n->reader >= 0 && g->readers[n->reader].parts) {
		struct stk_bytes *bytes = stk__arena_take(&w->arena, (size_t)g->readers[n->reader].parts * sizeof *bytes);
		if (!bytes)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
		stk__fetch_parts(s, n->reader, bytes);
		call->bytes = bytes;
	}
	if (n->cloned && run->chain >= 0)
		call->wanted = g->levels[run->level].chains[run->chain].is_read + n->first_value;
	for (int32_t k = 0; k < call->n_out; k++)
		if (!call->wanted || call->wanted[k])
			call->out[k] = (struct stk_tensor){0};
		else
			call->out[k].data = NULL;
	return STK_OK;
}

enum stk_status stk__call_infer(const struct stk_chain_run *run, int32_t index, struct stk_call *call, struct stk_error *err)
{
	const struct stk_graph_node *node = run->pipeline->program->nodes[index].node;
	enum stk_status s = call->def->infer(call, err);
	if (s || !node->may_hold_nan || !call->n_out)
		return s;
	return stk__args_suit(node->def, call->args, call->out[0].desc.dtype, err);
}

/* Returns whether this chain writes the value to the slot. A cloned operator runs in every chain that reads its value, but only the chain that it belongs to
 * writes the value. */
static bool keeps(const struct stk_chain_run *run, const struct stk_value *v)
{
	const struct stk_program_node *n = &run->pipeline->program->nodes[v->node];
	return v->slot >= 0 && (!n->cloned || (n->level == run->level && n->chain == run->chain));
}

/* Fills the value's memory with the debugging byte, if one is set, so that bytes that the operator does not write can be noticed. */
static void poison(const struct stk_chain_run *run, struct stk_tensor *t, int64_t bytes)
{
	if (run->pipeline->crew.poison >= 0)
		memset(t->data, run->pipeline->crew.poison, (size_t)bytes);
}

enum stk_status stk__branch_taken(
	const struct stk_chain_run *run, const struct stk_program_condition *when, int32_t n_when, bool *taken, struct stk_error *err)
{
	*taken = true;
	for (int32_t k = 0; k < n_when && *taken; k++) { /* an inner condition's predicate exists only if the outer ones are true */
		const struct stk_tensor *t = &run->worker->values[when[k].value];
		if (t->desc.dtype != STK_BOOL || t->desc.ndim != 0)
			return stk__fail(err, STK_SHAPE, "its condition is not a scalar of type bool for this sample");
		*taken = *(const bool *)t->data == when[k].expected;
	}
	return STK_OK;
}

int32_t stk__value_destination(const struct stk_chain_run *run, int32_t value)
{
	const struct stk_program *g = run->pipeline->program;
	int32_t to = value;
	while (g->values[to].slot < 0) {
		if (g->values[to].merge < 0)
			return value;
		const struct stk_program_node *merge = &g->nodes[g->values[to].merge];
		const struct stk_tensor *predicate = &run->worker->values[merge->inputs[0]];
		bool runs;
		if (merge->level != run->level || merge->chain != run->chain ||
			stk__branch_taken(run, merge->when, merge->node->n_when, &runs, NULL) || !runs ||
			predicate->desc.dtype != STK_BOOL || predicate->desc.ndim != 0 ||
			merge->inputs[*(const bool *)predicate->data ? 1 : 2] != to)
			return value;
		to = merge->first_value;
	}
	return to;
}

static void release_buffer(void *buffer)
{
	stk__buffer_release(buffer);
}

/* Makes the slot refer to the buffer into which the bytes were read, if the buffer holds exactly the output's bytes and sharing it is better than a copy
 * (stk__fetch_share). Otherwise returns false, and the caller must copy the bytes. */
static bool refer_to_read_bytes(const struct stk_chain_run *run, const struct stk_value *v, const struct stk_tensor *t)
{
	const struct stk_sample_state *s = &run->record->samples[run->sample];
	const int32_t reader = run->pipeline->program->nodes[v->node].reader;
	struct stk_buffer *b = reader < 0 ? NULL : stk__fetch_share(s, reader, t->data, (size_t)stk_desc_bytes(&t->desc));
	if (!b)
		return false;
	bool done = stk__slot_adopt(run->record->slot, v->slot, run->sample, &t->desc, t->data, release_buffer, b);
	if (!done)
		stk__buffer_release(b);
	return done;
}

/* Sets the address of an inferred value: in the slot or in scratch memory. A view, whose data is already set, keeps its address unless the value must be in
 * the slot: then its bytes are copied there, unless refer_to_read_bytes saves the copy. */
enum stk_status stk__value_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err)
{
	struct stk_tensor *t = &run->worker->values[value];
	const struct stk_value *v = &run->pipeline->program->values[t->data ? value : stk__value_destination(run, value)];
	bool in_slot = keeps(run, v);
	if (t->data && !in_slot)
		return STK_OK;
	size_t limit = run->pipeline->config.memory_limit;
	int64_t bytes = stk_desc_bytes(&t->desc);
	if (bytes < 0)
		return stk__fail(err, STK_LIMIT, "the output is too large to be addressed");
	if ((size_t)bytes > limit && !t->data) /* only scratch memory enforces the limit itself, so memory in the slot is checked here */
		return stk__fail_memory_limit(err, (size_t)bytes, limit);
	if (in_slot) {
		const void *view = t->data;
		struct stk_tensor *output = &run->record->slot->values[v->slot].samples[run->sample];
		if (view && view == output->data) { /* a branch has already written this merged value to its final address */
			output->desc = t->desc;
			return STK_OK;
		}
		if (view && refer_to_read_bytes(run, v, t))
			return STK_OK;
		if (!stk__slot_place(run->record->slot, v->slot, run->sample, &t->desc))
			return stk__fail(err, STK_NO_MEMORY, "out of memory for an output of %lld bytes", (long long)bytes);
		t->data = output->data;
		if (view)
			memcpy(t->data, view, (size_t)bytes);
		else
			poison(run, t, bytes);
		return STK_OK;
	}
	t->data = stk__arena_take(&run->worker->arena, (size_t)bytes);
	if (!t->data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a value of %lld bytes", (long long)bytes);
	poison(run, t, bytes);
	return STK_OK;
}
