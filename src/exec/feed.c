/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls users' sources on a thread of its own, checks the tensors that they give, and passes these to the chains. */
#include "exec/feed.h"

#include "base/clock.h"
#include "exec/engine.h"
#include "op/dims.h"
#include "op/op.h"
#include "thread/thread.h"

#include <stdio.h>
#include <string.h>

/* The data that one source has given for one batch. */
struct fed {
	struct stk_tensor *tensors; /* [output * batch size + i]: the output for sample i */
	void (**release)(void *);   /* the source's release functions, one for each call of pull */
	void **release_user;
	bool *on_gpu;                   /* [output]: true if the source's data for this output is on the GPU */
	struct stk_fed_sample *samples; /* [i]: the source's report about sample i */
	int32_t pulls, count;
	bool last; /* true if the batch is the last of its epoch; only used without a reader */
};

/* Type and number of dimensions of a source's first tensor. All later tensors of the source must have the same. */
struct first_tensor {
	bool known;
	enum stk_dtype dtype;
	int32_t ndim;
};

struct stk_feed_stage {
	pthread_t thread;
	pthread_cond_t work;                     /* signalled when the thread has work */
	bool started, runs, calls;               /* started: the thread exists; runs: false asks it to end; calls: a callback is running */
	void (*destroy)(struct stk_pipeline *p); /* called after the thread's current callback has returned; may be NULL */
	int64_t k;                               /* number of the next batch to request from the sources */
	int64_t epoch, step;                     /* epoch of batch k, and its step in the epoch */
	struct fed *fed_values;                  /* [(index of the batch's record) * sources + source] */
	struct first_tensor *first_tensor;       /* indexed by program value */
};

static const struct stk_level *first_level(const struct stk_pipeline *p)
{
	return &p->program->levels[0];
}

static struct fed *fed_of(const struct stk_record *r, int32_t c)
{
	const struct stk_pipeline *p = r->pipeline;
	return &p->parts.feed->fed_values[(r - p->flight.records) * first_level(p)->n_callbacks + c];
}

bool stk__feed_on_gpu(const struct stk_record *r, int32_t value)
{
	const struct stk_pipeline *p = r->pipeline;
	for (int32_t c = 0; p->parts.feed && c < first_level(p)->n_callbacks; c++) {
		const struct stk_program_node *n = &p->program->nodes[first_level(p)->callbacks[c]];
		if (value >= n->first_value && value < n->first_value + n->node->n_outputs)
			return fed_of(r, c)->on_gpu[value - n->first_value];
	}
	return false;
}

void stk__feed_release(struct stk_record *r)
{
	const struct stk_pipeline *p = r->pipeline;
	for (int32_t c = 0; p->parts.feed && c < first_level(p)->n_callbacks; c++) {
		struct fed *f = fed_of(r, c);
		for (int32_t k = 0; k < f->pulls; k++)
			if (f->release[k])
				f->release[k](f->release_user[k]);
		f->pulls = 0;
		memset(f->samples, 0, (size_t)p->config.batch_size * sizeof *f->samples);
	}
}

const struct stk_fed_sample *stk__feed_sample_report(const struct stk_record *r, int32_t i)
{
	const struct stk_pipeline *p = r->pipeline;
	const struct stk_fed_sample *found = NULL;
	for (int32_t c = 0; p->parts.feed && c < first_level(p)->n_callbacks; c++) {
		const struct stk_fed_sample *s = &fed_of(r, c)->samples[i];
		if (s->failure)
			return s;
		if (!found && (s->uri || s->numbered))
			found = s;
	}
	return found;
}

/* Checks that a tensor has the type, number of dims and layout for which the graph was built, a possible shape, and data. name: name of the source. */
static enum stk_status check_tensor(const struct stk_value *v, const char *name, const struct stk_tensor *t, struct stk_error *err)
{
	if (t->desc.dtype < 0 || t->desc.dtype >= STK_DTYPE_COUNT || t->desc.ndim < 0 || t->desc.ndim > STK_MAX_DIMS)
		return stk__fail(err, STK_USER, "\"%s\" gave a tensor of no known type, or of %d dims", name, t->desc.ndim);
	if (v->desc.dtype != STK_NO_DTYPE && t->desc.dtype != v->desc.dtype)
		return stk__fail(err, STK_USER, "\"%s\" is declared as %s and gave %s", name, stk_dtype_name(v->desc.dtype),
			stk_dtype_name(t->desc.dtype));
	if (v->desc.ndim >= 0 && t->desc.ndim != v->desc.ndim)
		return stk__fail(err, STK_USER, "\"%s\" is declared with %d dims and gave %d", name, v->desc.ndim, t->desc.ndim);
	size_t letters = strnlen(t->desc.layout, sizeof t->desc.layout);
	if (letters && letters != (size_t)t->desc.ndim)
		return stk__fail(
			err, STK_USER, "\"%s\" gave a tensor of %d dims with the layout \"%.8s\"", name, t->desc.ndim, t->desc.layout);
	/* If no layout was declared, the graph has assumed one. If it did not know the number of dims, operators check each sample. */
	const char *promised = v->desc.layout[0] ? v->desc.layout : v->desc.ndim >= 0 ? stk__layout_of(&v->desc) : "";
	if (letters && (v->desc.layout[0] || v->desc.ndim >= 0) && strcmp(t->desc.layout, promised) != 0)
		return stk__fail(err, STK_USER, "\"%s\" gave the layout \"%s\", where the graph was built for \"%s\": declare it (layout=)",
			name, t->desc.layout, promised);
	int64_t bytes = stk_desc_bytes(&t->desc);
	if (bytes < 0)
		return stk__fail(err, STK_USER, "\"%s\" gave a tensor of impossible shape", name);
	if (bytes > 0 && !t->data)
		return stk__fail(err, STK_USER, "\"%s\" gave a tensor without data", name);
	return STK_OK;
}

/* Checks that a sample has the type, layout and number of dims of the first sample of its batch. */
static enum stk_status check_alike(const char *name, const struct stk_tensor *first, const struct stk_tensor *t, struct stk_error *err)
{
	if (t->desc.dtype != first->desc.dtype)
		return stk__fail(err, STK_USER, "\"%s\" gave %s, where the first sample of the batch is %s", name,
			stk_dtype_name(t->desc.dtype), stk_dtype_name(first->desc.dtype));
	if (strcmp(t->desc.layout, first->desc.layout) != 0)
		return stk__fail(err, STK_USER, "\"%s\" gave the layout \"%s\", where the first sample of the batch has \"%s\"", name,
			t->desc.layout, first->desc.layout);
	if (t->desc.ndim != first->desc.ndim)
		return stk__fail(err, STK_USER, "\"%s\" gave a tensor of %d dims, where the first sample of the batch has %d", name,
			t->desc.ndim, first->desc.ndim);
	return STK_OK;
}

/* Checks that a tensor has the type and number of dims of the source's first batch, which the first call stores in `first`. DALI checks this too: operators,
 * and often the consumer's code, are made for one type. */
static enum stk_status check_steady(struct first_tensor *first, const char *name, const struct stk_tensor *t, struct stk_error *err)
{
	if (!first->known)
		*first = (struct first_tensor){.known = true, .dtype = t->desc.dtype, .ndim = t->desc.ndim};
	if (t->desc.dtype != first->dtype)
		return stk__fail(err, STK_USER, "\"%s\" gave %s, where its first batch was %s; convert what it gives to one type", name,
			stk_dtype_name(t->desc.dtype), stk_dtype_name(first->dtype));
	if (t->desc.ndim != first->ndim)
		return stk__fail(err, STK_USER,
			"\"%s\" gave samples of %d dimensions, where those of its first batch have %d; a source keeps to one number of "
			"dimensions",
			name, t->desc.ndim, first->ndim);
	return STK_OK;
}

/* Checks a value that a source gave on the GPU: it must not be an output, and only `copy` operators on the GPU may read it. */
static enum stk_status check_readers(const struct stk_pipeline *p, int32_t value, const char *name, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	bool only_copied = !g->values[value].is_output;
	for (int32_t i = 0; i < g->n_nodes && only_copied; i++) {
		const struct stk_program_node *n = &g->nodes[i];
		for (int32_t k = 0; k < stk__program_sources(n); k++)
			only_copied &= stk__program_source(n, k) != value ||
				       (n->on_gpu && k < n->node->n_inputs && strcmp(n->def->name, "copy") == 0);
	}
	return only_copied
		       ? STK_OK
		       : stk__fail(err, STK_USER,
				 "\"%s\" gave data on the GPU, which is read on the cores; move the source there (device=\"gpu\")", name);
}

/* Adds the source's name and the batch's position to an error of the source, and sets its code. Returns s. */
static enum stk_status add_source_to_error(const struct stk_pipeline *p, const struct stk_graph_node *node,
	const struct stk_feed_request *q, enum stk_status s, struct stk_error *err)
{
	if (!err->message[0])
		snprintf(err->message, sizeof err->message, "the source \"%s\" failed without saying why", node->name);
	err->code = s;
	stk__error_set_op(err, node->name);
	stk__error_set_sample(err, "", stk__shown_epoch(p, q->epoch), q->position);
	return s;
}

static enum stk_status pull(struct stk_pipeline *p, struct stk_record *r, int32_t c, int32_t index, struct stk_error *err)
{
	const struct stk_graph_node *node = p->program->nodes[first_level(p)->callbacks[c]].node;
	struct fed *f = fed_of(r, c);
	int32_t batch = p->config.batch_size, requested = index < 0 ? r->count : 1;
	struct stk_tensor *to = f->tensors;
	if (index >= 0)
		to = stk__alloc((size_t)node->n_outputs * sizeof *to);
	if (!to)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a source's sample");
	struct stk_feed feed = {
		.tensors = to, .on_gpu = index < 0 ? f->on_gpu : NULL, .samples = f->samples + (index < 0 ? 0 : index), .count = requested};
	const struct stk_feed_request request = {.epoch = r->at.epoch,
		.batch = stk__step_of_epoch(p, &r->at),
		.index = index,
		.count = r->count,
		.position = r->samples[index < 0 ? 0 : index].place.position};
	STK_COUNT(p, user_calls, 1);
	stk__assert_unlocked(p);
	enum stk_status s = stk__status_of_pull(node->source.pull(node->source.user, &request, &feed, err));
	if (s && s != STK_END)
		add_source_to_error(p, node, &request, s, err);
	if (s == STK_OK) {
		f->release[f->pulls] = feed.release;
		f->release_user[f->pulls++] = feed.release_user;
		f->last |= feed.last;
		if (feed.count < 1 || feed.count > requested)
			s = stk__fail(
				err, STK_USER, "\"%s\" gave %d samples; the batch has room for %d", node->name, feed.count, requested);
	}
	/* Moves the tensors so that each output begins `batch` tensors after the previous one; the source has stored them `requested` tensors apart. */
	for (int32_t o = node->n_outputs - 1; s == STK_OK && o >= 0; o--)
		for (int32_t i = feed.count - 1; i >= 0; i--)
			f->tensors[o * batch + (index < 0 ? i : index)] = to[o * requested + i];
	if (index >= 0)
		stk__free(to);
	if (s == STK_OK)
		f->count = index < 0 ? feed.count : index + 1;
	return s;
}

/* Checks the data of source c, and passes it to the chains, which read it in the source's own memory. Copies a value that is also an output. */
static enum stk_status publish(struct stk_pipeline *p, struct stk_record *r, int32_t c, struct stk_error *err)
{
	const struct stk_program_node *n = &p->program->nodes[first_level(p)->callbacks[c]];
	for (int32_t o = 0; o < n->node->n_outputs; o++) {
		const struct stk_value *v = &p->program->values[n->first_value + o];
		if (fed_of(r, c)->on_gpu[o]) {
			enum stk_status s = check_readers(p, n->first_value + o, n->node->name, err);
			if (s)
				return s;
		}
		for (int32_t i = 0; i < r->count; i++) {
			struct stk_tensor t = fed_of(r, c)->tensors[o * p->config.batch_size + i];
			enum stk_status s = check_tensor(v, n->node->name, &t, err);
			if (s || (s = check_alike(n->node->name, &fed_of(r, c)->tensors[o * p->config.batch_size], &t, err)) ||
				(s = check_steady(&p->parts.feed->first_tensor[n->first_value + o], n->node->name, &t, err))) {
				stk__error_set_op(err, "external_source");
				stk__name_sample(p, &r->samples[i], p->program->leading_reader, err);
				return s;
			}
			if (v->desc.layout[0])
				memcpy(t.desc.layout, v->desc.layout, sizeof t.desc.layout);
			if (v->slot < 0)
				continue;
			if (!v->is_output) {
				r->slot->values[v->slot].samples[i] = t;
				continue;
			}
			if (!stk__slot_place(r->slot, v->slot, i, &t.desc))
				return stk__fail(err, STK_NO_MEMORY, "out of memory for an output");
			memcpy(r->slot->values[v->slot].samples[i].data, t.data, (size_t)stk_desc_bytes(&t.desc));
		}
	}
	return STK_OK;
}

/* Requests one batch from source c. Returns STK_END if the source has no more data in this epoch. In a pipeline with a reader, too few samples are an error,
 * since samples of the reader would be lost. */
static enum stk_status pull_batch(struct stk_pipeline *p, struct stk_record *r, int32_t c, struct stk_error *err)
{
	const struct stk_graph_node *node = p->program->nodes[first_level(p)->callbacks[c]].node;
	struct fed *f = fed_of(r, c);
	enum stk_status s = STK_OK;
	f->count = 0;
	f->last = false;
	memset(f->on_gpu, 0, (size_t)node->n_outputs * sizeof *f->on_gpu);
	if (!node->source.per_sample)
		s = pull(p, r, c, -1, err);
	for (int32_t i = 0; node->source.per_sample && i < r->count && s == STK_OK; i++)
		s = pull(p, r, c, i, err);
	if (p->program->reader >= 0 && (s == STK_END || (s == STK_OK && f->count < r->count)))
		return stk__fail(err, STK_USER,
			"\"%s\" gave %d samples for batch %lld of epoch %lld, where the reader has %d: in a pipeline with a reader, a source gives as many samples as "
			"the reader, whose epochs are the pipeline's; an iterable or a generator function that is shorter starts over with cycle=\"quiet\"",
			node->name, f->count, (long long)stk__step_of_epoch(p, &r->at), (long long)stk__shown_epoch(p, r->at.epoch),
			r->count);
	f->last |= s == STK_END;
	return s == STK_END && f->count > 0 ? STK_OK : s; /* the last batch, which is shorter */
}

static enum stk_status check_counts(const struct stk_pipeline *p, const struct stk_record *r, struct stk_error *err)
{
	const struct stk_level *level = first_level(p);
	for (int32_t c = 1; c < level->n_callbacks; c++)
		if (fed_of(r, c)->count != fed_of(r, 0)->count)
			return stk__fail(err, STK_USER,
				"\"%s\" gave %d samples, and \"%s\" %d: sources of a pipeline give batches of one size",
				p->program->nodes[level->callbacks[0]].node->name, fed_of(r, 0)->count,
				p->program->nodes[level->callbacks[c]].node->name, fed_of(r, c)->count);
	return STK_OK;
}

/* Requests one batch from all sources. If one fails, still asks the others, so that all are at the same batch afterwards; returns the first error. *last: set
 * to true if a source reports the end of its epoch, even if another one has failed. */
static enum stk_status pull_all(struct stk_pipeline *p, struct stk_record *r, bool *last, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	bool ended = false;
	for (int32_t c = 0; c < first_level(p)->n_callbacks && !ended; c++) {
		struct stk_error further = {.sample = -1, .epoch = -1, .offset = -1};
		const enum stk_status one = pull_batch(p, r, c, s ? &further : err);
		*last |= fed_of(r, c)->last;
		ended = one == STK_END;
		s = s ? s : one;
	}
	return s;
}

/* Requests one batch from all sources, and passes it to the chains. Returns STK_END if the epoch has ended and there is no batch. *last: set to true if the
 * epoch ends with this batch or before it, also if the batch fails; this is only known without a reader. */
static enum stk_status feed_record(struct stk_pipeline *p, struct stk_record *r, bool *last, struct stk_error *err)
{
	int32_t n = first_level(p)->n_callbacks;
	enum stk_status s = pull_all(p, r, last, err);
	if (s || (s = check_counts(p, r, err)))
		return s;
	int32_t count = fed_of(r, 0)->count;
	/* only without a reader; with a reader, the number is already right, and chains that run may be reading it */
	if (count != r->count) {
		pthread_mutex_lock(&p->lock);
		r->count = count;
		pthread_mutex_unlock(&p->lock);
	}
	for (int32_t c = 0; c < n && s == STK_OK; c++)
		s = publish(p, r, c, err);
	return s;
}

/* Without a reader, computes the places of a batch's samples from the sources' position. The batch may turn out to have fewer samples. */
static void place_record(struct stk_pipeline *p, struct stk_record *r)
{
	r->at = (struct stk_order_step){.epoch = p->parts.feed->epoch, .step = p->parts.feed->step, .count = r->count};
	int64_t first = stk__step_position(p, p->parts.feed->epoch, p->parts.feed->step) + (int64_t)p->order.rank * p->config.batch_size;
	for (int32_t i = 0; i < r->count; i++)
		r->samples[i].place = (struct stk_place){.epoch = p->parts.feed->epoch, .position = first + i, .sample = -1};
}

static void call_reset(struct stk_pipeline *p, int64_t epoch)
{
	stk__assert_unlocked(p);
	for (int32_t c = 0; c < first_level(p)->n_callbacks; c++) {
		const struct stk_graph_node *node = p->program->nodes[first_level(p)->callbacks[c]].node;
		if (node->source.reset)
			node->source.reset(node->source.user, epoch);
	}
}

static void feed_one(struct stk_pipeline *p, struct stk_record *r)
{
	struct stk_feed_stage *f = p->parts.feed;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	bool leads = p->program->reader < 0, last = false, new_epoch = !leads && r->at.epoch > f->epoch;
	if (leads)
		place_record(p, r);
	else
		f->epoch = r->at.epoch;
	f->calls = true;
	pthread_mutex_unlock(&p->lock);
	if (new_epoch)
		call_reset(p, r->at.epoch);
	int64_t begin = stk__clock_ns();
	stk__range_begin(p->ctx->ranges, STK_SPAN_CALLBACK, r->k);
	enum stk_status s = feed_record(p, r, &last, &err);
	if (leads && last)
		call_reset(p, f->epoch + 1);
	stk__range_end(p->ctx->ranges);
	int64_t end = stk__clock_ns();
	STK_COUNT(p, source_ns, end - begin);
	stk__trace_row(p, STK_ROW_SOURCES,
		&(struct stk_trace_span){
			.kind = STK_SPAN_CALLBACK, .batch = r->k, .count = r->count, .stage = -1, .begin_ns = begin, .end_ns = end});
	pthread_mutex_lock(&p->lock);
	f->calls = false;
	if (p->run.stopping)
		pthread_cond_broadcast(&p->delivered);
	r->at.count = r->count;
	if (leads)
		r->at.last = last;
	f->k++;
	f->step++;
	if (leads && last) {
		f->epoch++;
		f->step = 0;
	}
	stk__on_fed(r, s, &err);
	stk__pool_wake(p->pool);
}

/* Returns the next batch that waits for its sources, or NULL. A batch without a slot does not wait yet. Call with the lock held. */
static struct stk_record *next_needing_data(struct stk_pipeline *p)
{
	for (; p->parts.feed->k < p->flight.next_open; p->parts.feed->k++)
		if (stk__record(p, p->parts.feed->k)->state == STK_BATCH_OPEN)
			return stk__record(p, p->parts.feed->k);
	return NULL;
}

static void *feed_main(void *arg)
{
	struct stk_pipeline *p = arg;
	struct stk_feed_stage *f = p->parts.feed;
	pthread_mutex_lock(&p->lock);
	while (f->runs) {
		struct stk_record *r = p->run.stopping ? NULL : next_needing_data(p);
		if (r)
			feed_one(p, r);
		else
			pthread_cond_wait(&f->work, &p->lock);
	}
	void (*destroy)(struct stk_pipeline * p) = f->destroy;
	pthread_mutex_unlock(&p->lock);
	if (destroy) {
		pthread_detach(f->thread);
		f->started = false;
		destroy(p);
	}
	return NULL;
}

void stk__feed_wake(struct stk_pipeline *p)
{
	pthread_cond_signal(&p->parts.feed->work);
}

bool stk__feed_waits(const struct stk_record *r)
{
	const struct stk_feed_stage *f = r->pipeline->parts.feed;
	return f && r->k >= f->k;
}

bool stk__feed_calls(const struct stk_pipeline *p)
{
	return p->parts.feed && p->parts.feed->calls;
}

bool stk__feed_is_calling(const struct stk_pipeline *p)
{
	return p->parts.feed && p->parts.feed->started && pthread_equal(p->parts.feed->thread, pthread_self());
}

void stk__feed_abandon(struct stk_pipeline *p, void (*destroy)(struct stk_pipeline *p))
{
	pthread_mutex_lock(&p->lock);
	p->run.stopping = true;
	p->parts.feed->destroy = destroy;
	p->parts.feed->runs = false;
	pthread_mutex_unlock(&p->lock);
}

void stk__feed_begin_at(struct stk_pipeline *p, int64_t epoch, int64_t step, bool notify)
{
	if (!p->parts.feed)
		return;
	p->parts.feed->k = p->flight.next_deliver;
	p->parts.feed->epoch = epoch;
	p->parts.feed->step = step;
	if (notify)
		call_reset(p, epoch);
}

enum stk_status stk__feed_start(struct stk_pipeline *p, struct stk_error *err)
{
	struct stk_feed_stage *f = p->parts.feed;
	if (!f)
		return STK_OK;
	f->runs = true;
	enum stk_status s = stk__thread_start(&f->thread, "stoker-feed", feed_main, p, err);
	f->started = s == STK_OK;
	return s;
}

void stk__feed_stop(struct stk_pipeline *p)
{
	struct stk_feed_stage *f = p->parts.feed;
	if (!f || !f->started)
		return;
	pthread_mutex_lock(&p->lock);
	f->runs = false;
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&p->lock);
	stk__thread_join(f->thread);
	f->started = false;
}

/* ---- creation and destruction ---- */

static bool make_fed(struct fed *f, size_t batch, size_t outputs)
{
	f->tensors = stk__calloc(batch * outputs, sizeof *f->tensors);
	f->release = stk__calloc(batch, sizeof *f->release);
	f->release_user = stk__calloc(batch, sizeof *f->release_user);
	f->on_gpu = stk__calloc(outputs, sizeof *f->on_gpu);
	f->samples = stk__calloc(batch, sizeof *f->samples);
	return f->tensors && f->release && f->release_user && f->on_gpu && f->samples;
}

enum stk_status stk__feed_create(struct stk_pipeline *p, struct stk_error *err)
{
	size_t sources = (size_t)first_level(p)->n_callbacks, n = (size_t)p->flight.n * sources;
	if (!n)
		return STK_OK;
	struct stk_feed_stage *f = p->parts.feed = stk__calloc(1, sizeof *f);
	if (!f)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for users' sources");
	pthread_cond_init(&f->work, NULL);
	f->first_tensor = stk__calloc((size_t)p->program->n_values, sizeof *f->first_tensor);
	f->fed_values = stk__calloc(n, sizeof *f->fed_values);
	bool ok = f->first_tensor && f->fed_values;
	for (size_t i = 0; ok && i < n; i++) {
		const struct stk_graph_node *node = p->program->nodes[first_level(p)->callbacks[i % sources]].node;
		ok = make_fed(&f->fed_values[i], (size_t)p->config.batch_size, (size_t)node->n_outputs);
	}
	return ok ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for users' sources");
}

void stk__feed_destroy(struct stk_pipeline *p)
{
	struct stk_feed_stage *f = p->parts.feed;
	if (!f)
		return;
	for (int64_t i = 0; f->fed_values && i < (int64_t)p->flight.n * first_level(p)->n_callbacks; i++) {
		stk__free(f->fed_values[i].tensors);
		stk__free(f->fed_values[i].release);
		stk__free(f->fed_values[i].release_user);
		stk__free(f->fed_values[i].on_gpu);
		stk__free(f->fed_values[i].samples);
	}
	pthread_cond_destroy(&f->work);
	stk__free(f->fed_values);
	stk__free(f->first_tensor);
	stk__free(f);
	p->parts.feed = NULL;
}
