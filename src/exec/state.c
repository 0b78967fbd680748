/* SPDX-License-Identifier: Apache-2.0
 * State: what a run needs to go on, and nothing of what it did. Since order and draws are pure functions of the position, it is a few numbers. */
#include "exec/exec.h"

#include <jansson.h>
#include <string.h>

/* Counted up when the layout of draws or the order changes its results. */
enum { STATE_FORMAT = 1, ORDER_VERSION = 1, RANDOM_VERSION = 1 };

static uint64_t fingerprint(const struct stk_pipeline *p)
{
	const struct stk_program *g = p->program;
	return g->reader < 0 ? 0 : g->nodes[g->reader].def->reader->fingerprint(g->nodes[g->reader].shared);
}

int64_t stk__steps_before(const struct stk_pipeline *p, int64_t epoch)
{
	return epoch == p->order.start_epoch ? p->order.start_position / ((int64_t)p->order.batch * p->order.ranks) : 0;
}

int64_t stk__step_position(const struct stk_pipeline *p, int64_t epoch, int64_t step)
{
	int64_t together = (int64_t)p->order.batch * p->order.ranks;
	return step * together + (epoch == p->order.start_epoch ? p->order.start_position % together : 0);
}

/* Where the run stands: the epoch, and how much of its global sequence all ranks together have had. */
static void position(const struct stk_pipeline *p, int64_t *epoch, int64_t *consumed)
{
	*epoch = p->order.start_epoch;
	*consumed = p->order.start_position;
	if (p->delivered_step < 0)
		return;
	*epoch = p->delivered_epoch;
	if (p->delivered_last && p->program->reader >= 0 && p->order.tail == STK_TAIL_WRAP && !p->order.contiguous) {
		/* The last batch took the next epoch's first samples along. (Contiguous shards know their first step of an epoch themselves.) */
		*consumed = stk__order_consumed(&p->order, *epoch, p->delivered_step + 1);
		for (; *consumed >= p->order.size; *consumed -= p->order.size)
			++*epoch;
	} else if (p->delivered_last) {
		++*epoch;
		*consumed = 0;
	} else {
		*consumed = p->program->reader >= 0 ? stk__order_consumed(&p->order, *epoch, p->delivered_step + 1)
						    : stk__step_position(p, *epoch, p->delivered_step + 1);
	}
}

enum stk_status stk_pipeline_save(struct stk_pipeline *p, char **out, struct stk_error *err)
{
	struct stk_text t = {0};
	int64_t epoch, consumed;
	position(p, &epoch, &consumed);
	stk__text_add(&t,
		"{\"stoker_state\": %d, \"order\": %d, \"random\": %d, \"seed\": %llu, \"order_seed\": %llu, \"shuffle\": %s, \"epoch\": "
		"%lld, "
		"\"consumed\": %lld, \"size\": %lld, \"fingerprint\": \"%016llx\"",
		STATE_FORMAT, ORDER_VERSION, RANDOM_VERSION, (unsigned long long)p->config.seed, (unsigned long long)p->order.seed,
		p->order.shuffle ? "true" : "false", (long long)epoch, (long long)consumed, (long long)p->order.size,
		(unsigned long long)fingerprint(p));
	stk__changes_save(p, &t);
	stk__text_add(&t, "}");
	*out = t.s;
	return t.failed ? stk__fail(err, STK_NO_MEMORY, "out of memory for the state") : STK_OK;
}

static bool get_int(const json_t *j, const char *name, int64_t *out)
{
	const json_t *v = json_object_get(j, name);
	*out = json_integer_value(v);
	return json_is_integer(v);
}

static enum stk_status check_data(const struct stk_pipeline *p, const json_t *j, int64_t size, struct stk_error *err)
{
	char have[32];
	snprintf(have, sizeof have, "%016llx", (unsigned long long)fingerprint(p));
	const char *want = json_string_value(json_object_get(j, "fingerprint"));
	bool same = want && strcmp(want, have) == 0;
	enum stk_status s = same ? STK_OK
				 : stk__changes_tell(p, json_integer_value(json_object_get(j, "files")),
					   json_string_value(json_object_get(j, "runs")), err);
	if (s)
		return s;
	if (!same && size == p->order.size)
		return stk__fail(
			err, STK_STATE, "the data set is not the one of the state: it has as many samples, but names or labels changed");
	if (size != p->order.size)
		return stk__fail(err, STK_STATE,
			"the state is of epochs of %lld samples; here they have %lld: samples were %s since it was saved", (long long)size,
			(long long)p->order.size, size > p->order.size ? "removed" : "added");
	bool shuffle = json_is_true(json_object_get(j, "shuffle"));
	if (shuffle != p->order.shuffle)
		return stk__fail(err, STK_STATE, "the state is of a %s run; this pipeline is %s", shuffle ? "shuffled" : "sequential",
			p->order.shuffle ? "shuffled" : "not");
	return STK_OK;
}

/* In mid-epoch: every source must be able to begin there. */
static enum stk_status check_sources(const struct stk_pipeline *p, int64_t consumed, struct stk_error *err)
{
	const struct stk_level *first = &p->program->levels[0];
	bool between = consumed % ((int64_t)p->order.batch * p->order.ranks) == 0; /* two batches */
	for (int32_t c = 0; c < first->n_callbacks; c++) {
		const struct stk_graph_node *node = p->program->nodes[first->callbacks[c]].node;
		if (node->source.seek == STK_SEEK_BATCH && !between)
			return stk__fail(err, STK_STATE,
				"the state is %lld samples into an epoch, which is no whole number of batches of %d: the source \"%s\" "
				"counts in batches, so restore it with the batch size that it was saved with",
				(long long)consumed, p->order.batch, node->name);
		if (node->source.seek == STK_SEEK_NONE)
			return stk__fail(err, STK_STATE,
				"the state is in mid-epoch, and the source \"%s\" can't begin there: it gives one batch after another "
				"(an iterator or generator); a callable that is told the position can, or save at the end of an epoch",
				node->name);
	}
	return STK_OK;
}

enum stk_status stk_pipeline_restore(struct stk_pipeline *p, const char *state, size_t size, struct stk_error *err)
{
	if (p->started || p->next_deliver)
		return stk__fail(err, STK_STATE, "a state is restored before the first batch; make a new pipeline");
	json_error_t je;
	json_t *j = json_loadb(state, size, JSON_REJECT_DUPLICATES, &je);
	int64_t format = 0, order = 0, random = 0, epoch = 0, consumed = 0, samples = 0;
	enum stk_status s = STK_OK;
	if (!j || !get_int(j, "stoker_state", &format))
		s = stk__fail(err, STK_STATE, "this is no state of a pipeline, or it is damaged%s%s", j ? "" : ": ", j ? "" : je.text);
	else if (format != STATE_FORMAT || !get_int(j, "order", &order) || order != ORDER_VERSION || !get_int(j, "random", &random) ||
		 random != RANDOM_VERSION)
		s = stk__fail(err, STK_STATE,
			"the state was saved by a version of stoker with another order of samples (format %lld.%lld.%lld)",
			(long long)format, (long long)order, (long long)random);
	else if (!get_int(j, "epoch", &epoch) || !get_int(j, "consumed", &consumed) || !get_int(j, "size", &samples) || epoch < 0 ||
		 consumed < 0 || consumed > (int64_t)1 << 62) /* over the size: a step that ran into the next epoch, where epochs wrap */
		s = stk__fail(err, STK_STATE, "the state is damaged: epoch %lld, %lld of %lld samples consumed", (long long)epoch,
			(long long)consumed, (long long)samples);
	else
		s = check_data(p, j, samples, err);
	if (s == STK_OK && consumed)
		s = check_sources(p, consumed, err);
	if (s == STK_OK) {
		p->order.seed = (uint64_t)json_integer_value(json_object_get(j, "order_seed"));
		p->order.start_epoch = epoch;
		p->order.start_position = consumed;
		p->feed_epoch = epoch;
		p->feed_step = stk__steps_before(p, epoch);
	}
	json_decref(j);
	return s;
}
