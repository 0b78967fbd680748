/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves and restores the state of a run. Order and draws are pure functions of the position, so a state consists of a few numbers, without any history. */
#include "exec/feed.h"
#include "order/shard.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Increase ORDER_VERSION or RANDOM_VERSION when order or draws change. Order 2 shuffles sets of up to 4096 samples evenly; a run that began with order 1
 * continues with order 1. */
enum { STATE_FORMAT = 1, ORDER_VERSION = 2, RANDOM_VERSION = 1 };

#define MOST_EPOCHS ((int64_t)1 << 32)  /* draws use 32 bits for the epoch */
#define MOST_SAMPLES ((int64_t)1 << 48) /* maximum number of samples in an epoch */

/* A parsed state whose fields have been checked. The strings belong to the parsed JSON object. */
struct saved {
	int64_t format, order, random, epoch, consumed, size, files;
	uint64_t seed, order_seed;
	bool shuffle, as_met;
	/* How contiguous shards were read; the names are those of struct stk_order. contiguous false: ranks took turns, or an older version saved the state. */
	bool contiguous, stick_to_shard, wraps;
	int64_t shards, shard, batch;
	int64_t block;
	const char *fingerprint, *runs, *reader;
	const json_t *other_readers; /* readers other than the leading one, in the order of the graph; NULL: no others */
};

static uint64_t fingerprint(const struct stk_program *g, int32_t node, enum stk_digest_form form)
{
	return node < 0 ? 0 : g->nodes[node].def->reader->fingerprint(g->nodes[node].shared, form);
}

/* Returns whether a reader's data has the fingerprint that a state has saved, in the present or an older form. */
static bool same_data(const struct stk_program *g, int32_t node, const char *saved)
{
	for (int form = 0; form < STK_DIGEST_FORMS; form++) {
		char found[32];
		snprintf(found, sizeof found, "%016llx", (unsigned long long)fingerprint(g, node, (enum stk_digest_form)form));
		if (strcmp(saved, found) == 0)
			return true;
	}
	return false;
}

static bool by_calls(const struct stk_graph_node *source)
{
	return source->source.seek == STK_SEEK_NONE || source->source.seek == STK_SEEK_NEVER;
}

/* Returns whether the pipeline has sources that can only be called in order, and the last delivered batch ended their epoch. They report the end only when
 * asked for another batch. The state then denotes the start of the next epoch, since such a source cannot begin in the middle of one. */
static bool sources_have_ended(struct stk_pipeline *p)
{
	const struct stk_level *first = &p->program->levels[0];
	bool any = false;
	for (int32_t c = 0; c < first->n_callbacks; c++)
		any |= by_calls(p->program->nodes[first->callbacks[c]].node);
	return any && p->program->reader < 0 && stk__deliver_ends_next(p);
}

/* Computes the run's position: the epoch, and the number of samples of the epoch's global sequence that all ranks together have consumed. */
static void position(struct stk_pipeline *p, int64_t *epoch, int64_t *consumed)
{
	const struct stk_order order = stk__order_copy(p);
	*epoch = order.start_epoch;
	*consumed = order.start_position;
	if (p->at.step < 0)
		return;
	*epoch = p->at.epoch;
	if (p->at.last && p->program->reader >= 0 && order.tail == STK_TAIL_WRAP && !order.contiguous) {
		/* The epoch's last batch also contains the first samples of the next epoch. (With contiguous shards the order computes where an epoch's
		 * first step begins.) */
		*consumed = stk__order_consumed(&order, *epoch, p->at.step + 1);
		for (; *consumed >= order.size; *consumed -= order.size)
			++*epoch;
	} else if (p->at.last || sources_have_ended(p)) {
		++*epoch;
		*consumed = 0;
	} else {
		*consumed = p->program->reader >= 0 ? stk__order_consumed(&order, *epoch, p->at.step + 1)
						    : stk__step_position(p, *epoch, p->at.step + 1);
	}
}

/* Appends a seed. JSON integers are limited to 2^63 - 1 here, so larger seeds are written as text. */
static void add_seed(struct stk_text *t, const char *name, uint64_t seed)
{
	const char *quote = seed > INT64_MAX ? "\"" : "";
	stk__text_add(t, "\"%s\": %s%llu%s, ", name, quote, (unsigned long long)seed, quote);
}

/* Appends the name of an operator as a JSON string, or "" if memory is short. */
static void add_name(struct stk_text *t, const char *name)
{
	json_t *j = json_string(name);
	char *text = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
	stk__text_add(t, "%s", text ? text : "\"\"");
	free(text);
	json_decref(j);
}

static void add_shuffle(struct stk_text *t, const struct stk_order *o)
{
	stk__text_add(t, "\"shuffle\": %s, ", o->shuffle ? "true" : "false");
	if (o->block)
		stk__text_add(t, "\"block\": %lld, ", (long long)o->block);
}

/* Appends how contiguous shards were read, since only a run that reads them in the same way continues them. */
static void add_shards(struct stk_text *t, const struct stk_order *o)
{
	if (o->contiguous)
		stk__text_add(t, "\"shards\": {\"count\": %d, \"own\": %d, \"batch\": %d, \"stick\": %s, \"wraps\": %s}, ", o->ranks,
			o->rank, o->batch, o->stick_to_shard ? "true" : "false", o->tail == STK_TAIL_WRAP ? "true" : "false");
}

static void add_other_readers(const struct stk_pipeline *p, struct stk_text *t)
{
	const struct stk_program *g = p->program;
	stk__text_add(t, ", \"reader\": ");
	add_name(t, g->nodes[g->reader].node->name);
	stk__text_add(t, ", \"beside\": [");
	for (int32_t i = 1; i < g->n_readers; i++) {
		int32_t reader = stk__program_reader_at(g, i);
		const struct stk_order *o = &p->orders[reader];
		stk__text_add(t, "%s{\"reader\": ", i > 1 ? ", " : "");
		add_name(t, g->nodes[g->readers[reader].node].node->name);
		stk__text_add(t, ", ");
		add_seed(t, "order_seed", o->seed);
		add_shuffle(t, o);
		stk__text_add(t, "\"size\": %lld, \"fingerprint\": \"%016llx\"}", (long long)o->size,
			(unsigned long long)fingerprint(g, g->readers[reader].node, STK_DIGEST_NOW));
	}
	stk__text_add(t, "]");
}

enum stk_status stk_pipeline_save(struct stk_pipeline *p, char **out, struct stk_error *err)
{
	if (STK_NEED(err, p, out))
		return STK_INVALID;
	struct stk_text t = {0};
	int64_t epoch, consumed;
	position(p, &epoch, &consumed);
	stk__text_add(&t, "{\"stoker_state\": %d, \"order\": %d, \"random\": %d, ", STATE_FORMAT, p->order.version_1 ? 1 : ORDER_VERSION,
		RANDOM_VERSION);
	add_seed(&t, "seed", p->config.seed);
	add_seed(&t, "order_seed", p->order.seed);
	add_shuffle(&t, &p->order);
	if (p->program->reader >= 0)
		add_shards(&t, &p->order);
	stk__text_add(&t, "\"epoch\": %lld, \"consumed\": %lld, ", (long long)epoch, (long long)consumed);
	if (p->order.as_met) /* no size: it is known only after the search, whose progress must not change a state */
		stk__text_add(&t, "\"size\": null, \"streamed\": true, ");
	else
		stk__text_add(&t, "\"size\": %lld, ", (long long)p->order.size);
	stk__text_add(&t, "\"fingerprint\": \"%016llx\"", (unsigned long long)fingerprint(p->program, p->program->reader, STK_DIGEST_NOW));
	stk__changes_save(p, &t);
	if (p->program->n_readers > 1)
		add_other_readers(p, &t);
	stk__text_add(&t, "}");
	*out = t.s;
	return t.failed ? stk__fail(err, STK_NO_MEMORY, "out of memory for the state") : STK_OK;
}

/* ---- reading a state ---- */

static enum stk_status get_int(const json_t *j, const char *name, int64_t most, int64_t *out, struct stk_error *err)
{
	const json_t *v = json_object_get(j, name);
	*out = json_integer_value(v);
	if (!json_is_integer(v) || *out < 0 || *out > most)
		return stk__fail(err, STK_STATE, "the state is damaged: \"%s\" %s, not a whole number from 0 to %lld", name,
			v ? "has another type or value" : "is missing", (long long)most);
	return STK_OK;
}

static enum stk_status get_seed(const json_t *j, const char *name, uint64_t *out, struct stk_error *err)
{
	const json_t *v = json_object_get(j, name);
	const char *text = json_string_value(v);
	char printed[32];
	*out = text ? strtoull(text, NULL, 10) : (uint64_t)json_integer_value(v);
	snprintf(printed, sizeof printed, "%" PRIu64, *out);
	if (text ? strcmp(text, printed) == 0 : json_is_integer(v) && json_integer_value(v) >= 0)
		return STK_OK;
	return stk__fail(err, STK_STATE, "the state is damaged: \"%s\" %s, not a whole number from 0 to 2^64 - 1", name,
		v ? "has another type or value" : "is missing");
}

/* Reads a string of exactly `digits` hexadecimal digits. */
static enum stk_status get_hex(const json_t *j, const char *name, size_t digits, const char **out, struct stk_error *err)
{
	const json_t *v = json_object_get(j, name);
	*out = json_string_value(v);
	if (!*out || strlen(*out) != digits || strspn(*out, "0123456789abcdef") != digits)
		return stk__fail(err, STK_STATE, "the state is damaged: \"%s\" %s, not %zu hexadecimal digits", name,
			v ? "has another type or value" : "is missing", digits);
	return STK_OK;
}

/* Reads the size of the blocks that the order keeps together: 0 if the state has none, since that run shuffled single samples. */
static enum stk_status get_block(const json_t *j, int64_t *out, struct stk_error *err)
{
	*out = 0;
	return json_object_get(j, "block") ? get_int(j, "block", MOST_SAMPLES, out, err) : STK_OK;
}

static enum stk_status check_block(int64_t was, int64_t is, struct stk_error *err)
{
	if (was == is)
		return STK_OK;
	return stk__fail(err, STK_STATE, "the state is of a run that shuffled %s; this one shuffles %s", was ? "whole shards" : "samples",
		is ? "whole shards" : "samples");
}

static enum stk_status check_names(json_t *j, struct stk_error *err)
{
	static const char *const known[] = {"stoker_state", "order", "random", "seed", "order_seed", "shuffle", "epoch", "consumed", "size",
		"fingerprint", "files", "runs", "reader", "beside", "block", "streamed", "shards",
		"iterator" /* written by the Python package's iterators */};
	for (void *i = json_object_iter(j); i; i = json_object_iter_next(j, i)) {
		size_t k = 0;
		while (k < sizeof known / sizeof *known && strcmp(known[k], json_object_iter_key(i)) != 0)
			k++;
		if (k == sizeof known / sizeof *known)
			return stk__fail(
				err, STK_STATE, "the state is damaged: it holds \"%.100s\", which no state has", json_object_iter_key(i));
	}
	return STK_OK;
}

static enum stk_status check_versions(const json_t *j, struct saved *v, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	if (!json_is_integer(json_object_get(j, "stoker_state")))
		return stk__fail(err, STK_STATE, "this is not the state of a pipeline, or it is damaged");
	if ((s = get_int(j, "stoker_state", INT64_MAX, &v->format, err)) || (s = get_int(j, "order", INT64_MAX, &v->order, err)) ||
		(s = get_int(j, "random", INT64_MAX, &v->random, err)))
		return s;
	if (v->format != STATE_FORMAT || v->order < 1 || v->order > ORDER_VERSION || v->random != RANDOM_VERSION)
		return stk__fail(err, STK_STATE,
			"the state was saved by a version of stoker with another order of samples (format %lld.%lld.%lld); continue with that "
			"version, or begin a new epoch without the state",
			(long long)v->format, (long long)v->order, (long long)v->random);
	return STK_OK;
}

/* Reads the number of samples in the data set. A state of a run whose samples become known only while they are read may have none. */
static enum stk_status get_size(const json_t *j, struct saved *v, struct stk_error *err)
{
	v->as_met = json_is_true(json_object_get(j, "streamed"));
	if (v->as_met && json_is_null(json_object_get(j, "size")))
		return STK_OK;
	return get_int(j, "size", MOST_SAMPLES, &v->size, err);
}

static enum stk_status get_shards(const json_t *j, struct saved *v, struct stk_error *err)
{
	const json_t *shards = json_object_get(j, "shards");
	if (!shards)
		return STK_OK;
	enum stk_status s = get_int(shards, "count", v->size, &v->shards, err);
	if (s || (s = get_int(shards, "own", INT32_MAX, &v->shard, err)) || (s = get_int(shards, "batch", INT32_MAX, &v->batch, err)))
		return s;
	if (v->shards < 1 || v->shards > INT32_MAX || v->shard >= v->shards || v->batch < 1)
		return stk__fail(err, STK_STATE, "the state is damaged: shard %lld of %lld, in batches of %lld", (long long)v->shard,
			(long long)v->shards, (long long)v->batch);
	v->contiguous = true;
	v->stick_to_shard = json_is_true(json_object_get(shards, "stick"));
	v->wraps = json_is_true(json_object_get(shards, "wraps"));
	return STK_OK;
}

static enum stk_status read_saved(json_t *j, struct saved *v, struct stk_error *err)
{
	enum stk_status s = check_versions(j, v, err);
	if (s || (s = check_names(j, err)) || (s = get_seed(j, "seed", &v->seed, err)) ||
		(s = get_seed(j, "order_seed", &v->order_seed, err)) || (s = get_int(j, "epoch", MOST_EPOCHS - 1, &v->epoch, err)) ||
		(s = get_int(j, "consumed", 2 * MOST_SAMPLES, &v->consumed, err)) || (s = get_size(j, v, err)) ||
		(s = get_hex(j, "fingerprint", 16, &v->fingerprint, err)))
		return s;
	const json_t *shuffle = json_object_get(j, "shuffle");
	if (!json_is_boolean(shuffle))
		return stk__fail(err, STK_STATE, "the state is damaged: \"shuffle\" %s, not true or false",
			shuffle ? "has another type" : "is missing");
	v->shuffle = json_is_true(shuffle);
	if (v->size && (v->epoch + v->consumed / v->size >= MOST_EPOCHS || v->epoch > (INT64_MAX >> 2) / v->size))
		return stk__fail(err, STK_STATE, "the state is damaged: epoch %lld, %lld of %lld samples consumed", (long long)v->epoch,
			(long long)v->consumed, (long long)v->size);
	if ((s = get_block(j, &v->block, err)) || (s = get_shards(j, v, err)))
		return s;
	v->reader = json_string_value(json_object_get(j, "reader"));
	v->other_readers = json_object_get(j, "beside");
	if ((v->other_readers || v->reader) && !(v->reader && json_is_array(v->other_readers)))
		return stk__fail(err, STK_STATE, "the state is damaged: \"reader\" or \"beside\" is missing, or has another type");
	if (!json_object_get(j, "files") && !json_object_get(j, "runs"))
		return STK_OK;
	if ((s = get_int(j, "files", MOST_SAMPLES, &v->files, err)))
		return s;
	return get_hex(j, "runs", STK_STATE_RUN_DIGITS, &v->runs, err);
}

/* ---- checks that the state fits this pipeline ---- */

static enum stk_status check_data(const struct stk_pipeline *p, const struct saved *v, struct stk_error *err)
{
	bool same = same_data(p->program, p->program->reader, v->fingerprint);
	if (v->as_met != p->order.as_met)
		return stk__fail(err, STK_STATE,
			v->as_met
				? "the state is of an epoch in which tars were read from front to back, since they had no index; this pipeline has one"
				: "the state is of a run that had an index of its tars; this pipeline has none, and reads them from front to back");
	if (v->as_met && !same)
		return stk__fail(
			err, STK_STATE, "the tars are not those of the state: their names, or their number, changed" STK_STATE_WAY_OUT);
	enum stk_status s = same ? STK_OK : stk__changes_describe(p, v->files, v->runs, err);
	if (s)
		return s;
	if (!same && v->size == p->order.size)
		return stk__fail(err, STK_STATE,
			"the data set is not the one of the state: it has as many samples, but names or labels changed" STK_STATE_WAY_OUT);
	if (!v->as_met && v->size != p->order.size)
		return stk__fail(err, STK_STATE,
			"the state is of epochs of %lld samples; here they have %lld: samples were %s since it was saved" STK_STATE_WAY_OUT,
			(long long)v->size, (long long)p->order.size, v->size > p->order.size ? "removed" : "added");
	if (v->shuffle != p->order.shuffle)
		return stk__fail(err, STK_STATE,
			"the state is of a %s run; this pipeline is %s: give the shuffle of the run that was saved",
			v->shuffle ? "shuffled" : "sequential", p->order.shuffle ? "shuffled" : "not");
	return check_block(v->block, p->order.block, err);
}

/* ---- contiguous shards ---- */

/* Returns whether each rank begins a shard at the state's position, so that any other division of the data set may follow. */
static bool begins_shards(const struct stk_order *o)
{
	/* true if no batch has samples of two epochs */
	bool aligned = o->tail != STK_TAIL_WRAP || o->size % ((int64_t)o->batch * o->ranks) == 0;
	return o->start_position == 0 && (!o->contiguous || aligned || o->start_epoch == 0);
}

/* Returns whether this rank reads the same samples from the state's position on in the order `was` of the saved run and in the order `is` of this pipeline,
 * which have the same number of shards. shard: the shard whose position was saved. */
static bool continue_alike(const struct stk_order *was, const struct stk_order *is, int32_t shard)
{
	struct stk_order of_shard = *was;
	of_shard.rank = shard;
	const struct stk_place a = stk__order_place(was, 0, 0), b = stk__order_place(is, 0, 0);
	/* Shards may differ in size: the saved position is also this rank's only if both shards have had the same number of steps before. */
	return a.epoch == b.epoch && a.position == b.position && stk__shard_begun(&of_shard) == stk__shard_begun(was);
}

static void describe_shards(const struct stk_order *o, int32_t shard, char out[160])
{
	if (!o->contiguous)
		snprintf(out, 160, "batches that the ranks take in turn");
	else
		snprintf(out, 160, "shard %d of %d in batches of %d%s%s", shard, o->ranks, o->batch,
			o->stick_to_shard ? " with stick_to_shard" : "", o->tail == STK_TAIL_WRAP ? "" : " with pad_last_batch");
}

/* Fails if samples would be lost or repeated, since the state and this pipeline divide the data set in different ways, at least one of them into contiguous
 * shards. */
static enum stk_status check_shards(const struct stk_pipeline *p, const struct saved *v, struct stk_error *err)
{
	char of_state[160], present[160];
	struct stk_order is = p->order, was;
	if (p->program->reader < 0 || is.as_met || (!v->contiguous && !is.contiguous))
		return STK_OK;
	is.start_epoch = v->epoch;
	is.start_position = v->consumed;
	was = is;
	was.contiguous = v->contiguous;
	int32_t shard = v->contiguous ? (int32_t)v->shard : is.rank;
	if (v->contiguous) {
		was.ranks = (int32_t)v->shards;
		was.batch = (int32_t)v->batch;
		was.stick_to_shard = v->stick_to_shard;
		was.tail = v->wraps ? STK_TAIL_WRAP : is.tail == STK_TAIL_WRAP ? STK_TAIL_FILL : is.tail;
	}
	describe_shards(&was, shard, of_state);
	describe_shards(&is, is.rank, present);
	if (begins_shards(&was) && begins_shards(&is))
		return STK_OK;
	if (!is.contiguous) /* the first rank takes the sample at the state's position */
		is.rank = was.rank = 0;
	bool old = !v->contiguous && is.ranks == 1; /* if one rank reads everything, contiguous shards and shards in turns give the same
						     * order */
	if (old || (v->contiguous && was.ranks == (is.contiguous ? is.ranks : 1) && continue_alike(&was, &is, is.contiguous ? shard : 0)))
		return STK_OK;
	return stk__fail(err, STK_STATE,
		"the state is of a run that read %s; this pipeline reads %s, so that samples would be lost or repeated: continue with the same "
		"settings and each shard's own state, or give the reader random_shuffle=True or tail=\"keep\", with which any number of ranks "
		"continues one state",
		of_state, present);
}

/* Checks a reader other than the leading one against its entry in the state, and restores the seed of its order. */
static enum stk_status restore_other_reader(struct stk_pipeline *p, int32_t reader, const json_t *j, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	struct stk_order *o = &p->orders[reader];
	const char *name = g->nodes[g->readers[reader].node].node->name, *was = json_string_value(json_object_get(j, "reader")), *print;
	int64_t size, block;
	uint64_t seed;
	enum stk_status s = get_int(j, "size", MOST_SAMPLES, &size, err);
	if (s || (s = get_seed(j, "order_seed", &seed, err)) || (s = get_hex(j, "fingerprint", 16, &print, err)))
		return s;
	if (!was || strcmp(was, name) != 0)
		return stk__fail(
			err, STK_STATE, "the state is of a run with reader \"%s\", where this pipeline has \"%s\"", was ? was : "", name);
	if (size != o->size || !same_data(g, g->readers[reader].node, print))
		return stk__fail(err, STK_STATE,
			"the data set of reader \"%s\" has changed since the state was saved: %lld samples, now %lld" STK_STATE_WAY_OUT,
			name, (long long)size, (long long)o->size);
	if (json_is_true(json_object_get(j, "shuffle")) != o->shuffle)
		return stk__fail(err, STK_STATE, "reader \"%s\" was %s when the state was saved, and is %s here", name,
			o->shuffle ? "sequential" : "shuffled", o->shuffle ? "shuffled" : "not");
	if ((s = get_block(j, &block, err)) || (s = check_block(block, o->block, err)))
		return s;
	o->seed = seed;
	return STK_OK;
}

/* Makes the reader that the state names the leading one, checks the other readers against the state, and restores the seeds of their orders. */
static enum stk_status restore_readers(struct stk_pipeline *p, const struct saved *v, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	int32_t others = v->other_readers ? (int32_t)json_array_size(v->other_readers) : 0;
	enum stk_status s = STK_OK;
	if (g->n_readers > 0 && others != g->n_readers - 1)
		return stk__fail(err, STK_STATE, "the state is of a run with %d readers; this pipeline has %d", others + 1, g->n_readers);
	if (v->reader && (s = stk_pipeline_lead(p, v->reader, err)))
		return s;
	for (int32_t i = 1; i < g->n_readers && s == STK_OK; i++)
		s = restore_other_reader(p, stk__program_reader_at(g, i), json_array_get(v->other_readers, (size_t)i - 1), err);
	return s;
}

/* Returns the position of the epoch's first batch in a run that began at epoch 0. It is above 0 if epochs follow each other without a gap and the previous
 * batch contains samples of this epoch. */
static int64_t first_position(const struct stk_pipeline *p, int64_t epoch)
{
	struct stk_order from_start = p->order;
	from_start.start_epoch = from_start.start_position = 0;
	return p->program->reader >= 0 ? stk__order_consumed(&from_start, epoch, 0) : 0;
}

/* Checks that every source can begin at the state's position. */
static enum stk_status check_sources(const struct stk_pipeline *p, const struct saved *v, struct stk_error *err)
{
	const struct stk_level *first = &p->program->levels[0];
	int64_t consumed = v->consumed, begin = first_position(p, v->epoch);
	for (int32_t c = 0; c < first->n_callbacks && (v->epoch || consumed); c++) {
		const struct stk_graph_node *node = p->program->nodes[first->callbacks[c]].node;
		if (node->source.seek == STK_SEEK_NEVER)
			return stk__fail(err, STK_STATE,
				"the state is of a run that has begun, and the source \"%s\" can't continue it: its results depend on all earlier "
				"calls; a callable that takes the position can, and at the end of an epoch an iterable or a generator function with "
				"cycle=\"raise\"",
				node->name);
	}
	if (consumed == begin)
		return STK_OK;
	bool between_batches = (consumed - begin) % ((int64_t)p->order.batch * p->order.ranks) == 0;
	for (int32_t c = 0; c < first->n_callbacks; c++) {
		const struct stk_graph_node *node = p->program->nodes[first->callbacks[c]].node;
		if (node->source.seek == STK_SEEK_BATCH && !between_batches)
			return stk__fail(err, STK_STATE,
				"the state is %lld samples into an epoch, which does not lie between two batches of %d: the source \"%s\" "
				"counts in batches, so restore it with the batch size that it was saved with",
				(long long)consumed, p->order.batch, node->name);
		if (node->source.seek == STK_SEEK_NONE)
			return stk__fail(err, STK_STATE,
				"the state is in mid-epoch, and the source \"%s\" can't begin there: it gives one batch after another "
				"(an iterable or a generator function); a callable that takes the position can, or save at the end of an epoch",
				node->name);
	}
	return STK_OK;
}

static void begin_at(struct stk_pipeline *p, const struct saved *v)
{
	p->order.seed = v->order_seed;
	p->order.version_1 = v->order == 1;
	p->order.start_epoch = v->epoch;
	p->order.start_position = v->consumed;
	if (p->program->reader >= 0 && p->order.tail == STK_TAIL_WRAP && !p->order.contiguous) {
		p->order.start_epoch += v->consumed / p->order.size;
		p->order.start_position %= p->order.size;
	} else if (p->program->reader >= 0 && stk__order_steps(&p->order, v->epoch) == 0) {
		/* Less than one step of the epoch is left, since the state was saved with fewer ranks or smaller batches. */
		p->order.start_epoch++;
		p->order.start_position = 0;
	}
	stk__feed_begin_at(p, p->order.start_epoch, stk__steps_before(p, p->order.start_epoch), false);
}

enum stk_status stk_pipeline_restore(struct stk_pipeline *p, const char *state, size_t size, struct stk_error *err)
{
	if (STK_NEED(err, p, state))
		return STK_INVALID;
	if (p->run.started || p->flight.next_deliver || p->at.step >= 0)
		return stk__fail(err, STK_STATE, "a state is restored before the first batch; make a new pipeline");
	json_error_t je;
	struct saved v = {0};
	json_t *j = json_loadb(state, size, JSON_REJECT_DUPLICATES, &je);
	enum stk_status s = j ? read_saved(j, &v, err)
			      : stk__fail(err, STK_STATE, "this is not the state of a pipeline, or it is damaged: %s", je.text);
	if (s == STK_OK && (s = restore_readers(p, &v, err)) == STK_OK)
		s = check_data(p, &v, err);
	if (s == STK_OK)
		s = check_shards(p, &v, err);
	if (s == STK_OK)
		s = check_sources(p, &v, err);
	if (s == STK_OK)
		begin_at(p, &v);
	p->run.restored |= s == STK_OK;
	json_decref(j);
	return s;
}
