/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one sample through one chain, with values in the worker's scratch or in the slot. Runs the gather of one node over a batch's samples. */
#include "exec/chain.h"
#include "exec/device.h"
#include "exec/fetch.h"
#include "exec/resident.h"
#include "op/video/clip.h"

static enum stk_status run_single(const struct stk_chain_run *run, int32_t index, struct stk_error *err)
{
	const struct stk_program_node *n = &run->pipeline->program->nodes[index];
	struct stk_call call;
	enum stk_status s = stk__call_prepare(run, index, &call, err);
	if (s || (s = stk__call_infer(run, index, &call, err)))
		return s;
	bool all_views = true;
	for (int32_t k = 0; k < call.n_out; k++) {
		if (call.wanted && !call.wanted[k] && call.out[k].data)
			continue;
		all_views &= call.out[k].data != NULL;
		if ((s = stk__value_place(run, n->first_value + k, err)))
			return s;
	}
	return all_views ? STK_OK : stk__op_run(&call, err);
}

/* Runs a group's pass. Runs each operator separately if the pass does not support the image, whose layout or type the graph may not have known. */
static enum stk_status run_pass(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	if (stk__pass_serves(run, group->nodes[0])) {
		s = stk__pass_group_run(run, group, err);
		if (s != STK_UNSUPPORTED || group->count == 1)
			return s;
		s = STK_OK;
	}
	for (int32_t k = 0; k < group->count && s == STK_OK; k++) {
		const struct stk_group single = {.nodes = &group->nodes[k], .count = 1, .pass = true, .step = -1, .image_step = -1};
		s = stk__pass_serves(run, group->nodes[k]) ? stk__pass_group_run(run, &single, err) : run_single(run, group->nodes[k], err);
		if (s && err) {
			char title[STK_MAX_TITLE];
			stk__node_title(run->pipeline->program->nodes[group->nodes[k]].node, title, sizeof title);
			stk__error_set_op(err, title);
		}
	}
	return s;
}

/* Loads the slot's value number `slot_value`, which an earlier level has stored. */
static void load_slot_value(const struct stk_chain_run *run, int32_t slot_value)
{
	run->worker->values[run->pipeline->program->slot_values[slot_value]] = run->record->slot->values[slot_value].samples[run->sample];
}

/* Loads the values that a node's gather reads and that earlier levels have stored in the slot. */
static void load_sources(const struct stk_chain_run *run, const struct stk_program_node *n)
{
	const struct stk_program *g = run->pipeline->program;
	for (int32_t k = 0; k < stk__program_sources(n); k++) {
		const struct stk_value *v = &g->values[stk__program_source(n, k)];
		/* the gather runs one level before its node; the slot then has only values of levels before that */
		if (v->slot >= 0 && g->nodes[v->node].level < run->level - 1)
			load_slot_value(run, v->slot);
	}
}

/* Skips a group in a branch that the sample does not take: its values get no data, and no operator reads them (graph/when.c). */
static void skip(const struct stk_chain_run *run, const struct stk_group *group)
{
	STK_COUNT(run->pipeline, branch_skips, group->count);
	if (group->step >= 0)
		stk__device_skip(run, group);
}

/* Replaces the error of an allocation that memory_limit refused with an error that names the limit. */
static enum stk_status over_limit(const struct stk_arena *a, struct stk_error *err)
{
	const struct stk_error refused = *err;
	enum stk_status s = stk__fail_memory_limit(err, a->refused, a->limit);
	stk__error_set_op(err, refused.op);
	return s;
}

static void count_videos(struct stk_pipeline *p, struct stk_video_tally *t)
{
	STK_COUNT(p, video_frames, t->frames);
	STK_COUNT(p, video_packets, t->packets);
	STK_COUNT(p, video_frames_on_gpu, t->on_gpu);
	*t = (struct stk_video_tally){0};
}

void stk__worker_end_sample(struct stk_exec_worker *w)
{
	stk__video_tool_forget(w->tools.video);
	stk__arena_reset(&w->arena);
}

enum stk_status stk__chain_run(struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, const struct stk_chain *chain,
	int32_t level, int32_t index, int32_t sample, struct stk_error *err)
{
	const struct stk_chain_run run = {p, w, r, level, index, sample};
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < chain->n_kept; k++)
		load_slot_value(&run, chain->kept_values[k]);
	stk__arena_limit(&w->arena, p->config.memory_limit);
	if (chain->reads && !stk__arena_charge(&w->arena, stk__fetch_bytes(&r->samples[sample], chain)))
		s = STK_NO_MEMORY;
	w->tools.cpu_jobs.held = NULL;            /* a sample that failed may have left a job here */
	bool recipes = p->parts.resident != NULL; /* true if the data set is resident in host memory; a data set on the GPU has no chains */
	if (recipes && s == STK_OK)
		s = stk__resident_sample(&run, err);
	for (int32_t g = 0; g < chain->n_groups && !recipes && s == STK_OK; g++) {
		const struct stk_group *group = &chain->groups[g];
		bool taken = true;
		if (group->fixed)
			continue;
		if (group->n_when)
			s = stk__branch_taken(&run, group->when, group->n_when, &taken, err);
		if (!taken)
			skip(&run, group);
		w->tools.cpu_jobs.hold = group->feeds;
		if (taken && s == STK_OK)
			s = group->step >= 0                                    ? stk__device_describe(&run, group, err)
			    : p->program->nodes[group->nodes[0]].node->by_frame ? stk__by_frame_run(&run, group, err)
			    : group->pass                                       ? run_pass(&run, group, err)
										: run_single(&run, group->nodes[0], err);
		if (s && err) {
			char title[STK_MAX_TITLE];
			stk__node_title(p->program->nodes[group->nodes[0]].node, title, sizeof title);
			stk__error_set_op(err, title);
			stk__name_input(p->program, &r->samples[sample], group->nodes[0], err);
			stk__name_origin(p, &r->samples[sample], group->nodes[0], stk__chain_reader(p->program, level, index), err);
		}
	}
	if (s == STK_NO_MEMORY && w->arena.refused && err)
		s = over_limit(&w->arena, err);
	if (w->tools.videos.frames || w->tools.videos.packets)
		count_videos(p, &w->tools.videos);
	stk__worker_end_sample(w);
	atomic_store_explicit(&w->scratch_peak, w->arena.peak, memory_order_relaxed);
	return s;
}

static enum stk_status begin_gather_readers(const struct stk_pipeline *p, struct stk_gather_readers *t, struct stk_error *err)
{
	t->count = 0;
	if (!t->rank)
		t->rank = stk__calloc((size_t)p->config.batch_size, sizeof *t->rank);
	return t->rank ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a branch's samples");
}

/* Runs a node's gather over the samples of the record. Leaves out samples that are dropped or do not take the node's branch. Also leaves out samples whose
 * arguments cannot be computed: their chain will fail for the same reason, and on_error applies to that failure. */
enum stk_status stk__gather_run(
	struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, int32_t node, int32_t *blamed, struct stk_error *err)
{
	const struct stk_program_node *n = &p->program->nodes[node];
	stk__arena_limit(&w->arena, 0); /* no limit: memory_limit applies to a sample, and this memory is for a batch */
	struct stk_call *calls = stk__arena_take(&w->arena, (size_t)r->count * sizeof *calls);
	int32_t *samples = stk__arena_take(&w->arena, (size_t)r->count * sizeof *samples);
	enum stk_status s = calls && samples ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a batch's scratch");
	int32_t count = 0;
	bool taken = true;
	if (n->node->n_when && s == STK_OK)
		s = begin_gather_readers(p, &r->gather_readers[n->gathers], err);
	for (int32_t i = 0; i < r->count && s == STK_OK; i++) {
		if (!r->samples[i].present)
			continue;
		const struct stk_chain_run run = {p, w, r, n->level, -1, i};
		load_sources(&run, n);
		if (n->node->n_when) {
			if ((s = stk__branch_taken(&run, n->when, n->node->n_when, &taken, err)) || !taken)
				continue;
			r->gather_readers[n->gathers].rank[i] = r->gather_readers[n->gathers].count++;
		}
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
	for (int32_t i = 0; i < count && n->node->n_when; i++)
		calls[i].batch = r->gather_readers[n->gathers].count;
	if (s == STK_OK && count > 0 && stk__program_fetches(p->program, node))
		s = stk__device_fetch(p, r, node, calls, count, err);
	if (s == STK_OK && count > 0)
		s = n->def->gather(calls, count, &r->gathered[n->gathers], err);
	*blamed = s && err->sample >= 0 && err->sample < count ? samples[err->sample] : -1;
	stk__arena_reset(&w->arena);
	return s;
}
