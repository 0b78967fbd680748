/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a worker that begins a sample reads its bytes itself or waits for them. Creates and destroys the structs for all reads. */
#include "exec/fetch_read.h"

#include "base/clock.h"
#include "exec/device.h"

/* ---- a worker's own try ---- */

bool stk__fetch_is_reading(struct stk_sample_state *s, int32_t chain)
{
	const struct stk_chain *c = stk__sample_chain(s, chain);
	for (int32_t k = 0; c->reads && k < stk__fetch_of(s)->n; k++)
		if (stk__chain_reads(c, &s->reads[k]) && stk__read_under_way(&s->reads[k])) {
			s->waiting |= 1ull << chain;
			return true;
		}
	return false;
}

enum stk_fetch_turn stk__fetch_order_next(struct stk_sample_state *s, int32_t chain, bool idle)
{
	struct stk_fetch *f = stk__fetch_of(s);
	const struct stk_chain *c = stk__sample_chain(s, chain);
	bool unread = false, tried = false;
	for (int32_t k = 0; c->reads && k < f->n; k++) {
		const struct stk_read *read = &s->reads[k];
		unread |= stk__chain_reads(c, read) && read->state == STK_READ_NONE;
		tried |= stk__chain_reads(c, read) && read->state == STK_READ_TRIED;
	}
	if (idle || !c->reads)
		return STK_FETCH_TAKE;
	if (tried || stk__fetch_is_reading(s, chain)) { /* a worker in another chain reads these bytes, or requests are under way */
		s->waiting |= 1ull << chain;
		return STK_FETCH_WAITS;
	}
	/* A sample of the next batch to be delivered is read even if the window is full: the requests that fill the window may wait for buffers that later
	 * batches hold, and those batches cannot be delivered before this one. */
	const struct stk_pipeline *p = s->record->pipeline;
	const bool needed = s->record->k <= p->flight.next_deliver;
	if (unread && !needed && f->may_read_ahead && f->in_flight && stk__fetch_is_full(p)) {
		f->some_read_postponed = true;
		return STK_FETCH_LATER;
	}
	for (int32_t k = 0; unread && k < f->n; k++)
		if (stk__chain_reads(c, &s->reads[k]) && s->reads[k].state == STK_READ_NONE)
			s->reads[k].state = STK_READ_TRIED;
	return STK_FETCH_TAKE;
}

static void count_miss(struct stk_pipeline *p)
{
	enum {
		MISS = 16,
		MANY = 3 * MISS
	}; /* one miss outweighs 16 hits; a single miss also occurs with a warm page cache and does not start reading ahead */
	struct stk_fetch *f = p->parts.fetch;
	f->cached_in_a_row = 0;
	f->misses += MISS;
	if (f->may_read_ahead || f->misses < MANY)
		return;
	f->misses = 0;
	f->may_read_ahead = true;
	/* begins with batches that are open already, since workers have begun only some of their reads */
	f->read_k = p->flight.next_deliver;
	f->read_i = f->read_j = 0;
}

static bool is_ready(struct stk_pipeline *p, struct stk_read *read, struct stk_read_request *q)
{
	return stk__surveyed_read(p, read->sample->place.sample, &q->io) || stk__io_try(p->io, &q->io);
}

/* Tries to read directly into the batch's pinned memory, without waiting. The read must have one part. Returns whether the request has ended. */
static bool try_pinned(struct stk_exec_worker *w, struct stk_read *read, struct stk_read_request *q, struct stk_device_batch *b)
{
	stk__file_buffer_begin(w, b, &q->io);
	bool at_hand = is_ready(read->sample->record->pipeline, read, q);
	if (at_hand && !q->io.status)
		read->parts[0].pinned = stk__file_buffer_end(w, q->io.size) + read->parts[0].begin;
	if (at_hand && q->io.status == STK_NO_MEMORY && w->file_buffer_error.code) /* the GPU's driver may have failed for another reason */
		q->io.status = stk__fail(q->io.error, w->file_buffer_error.code, "%s: %s", q->io.uri, w->file_buffer_error.message);
	return at_hand;
}

static bool try_request(struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_read *read, struct stk_read_request *q)
{
	struct stk_sample_state *s = read->sample;
	struct stk_device_batch *b = stk__read_parts(read) == 1 ? s->record->device : NULL;
	char uri[STK_MAX_URI];
	int64_t begin = p->trace ? stk__clock_ns() : 0;
	if (stk__read_uri(q, uri, sizeof uri) >= sizeof uri)
		return false;
	q->io.uri = uri;
	bool at_hand = b ? try_pinned(w, read, q, b) : is_ready(p, read, q);
	q->io.uri = NULL;
	q->io.error = NULL;
	if (at_hand && q->io.status)
		stk__set_error(&q->error, &w->error);
	if (p->trace && at_hand)
		stk__trace_add(p->trace, (int32_t)(w - p->crew.workers),
			&(struct stk_trace_span){.kind = STK_SPAN_READ,
				.batch = s->record->k,
				.first = (int32_t)(s - s->record->samples),
				.count = 1,
				.stage = -1,
				.begin_ns = begin,
				.end_ns = stk__clock_ns()});
	return at_hand;
}

/* Counts the requests that completed without blocking, and marks the others as under way; the caller submits them. Ends the read if all are complete. Also
 * counts hits and misses, which decide when reading ahead begins and ends. at_hand[k]: whether request k is complete. */
static void account(struct stk_pipeline *p, struct stk_read *read, const bool *at_hand)
{
	struct stk_fetch *f = p->parts.fetch;
	bool all = true;
	for (int32_t k = 0; k < read->n_requests; k++) {
		struct stk_read_request *q = &read->requests[k];
		if (at_hand[k]) {
			stk__read_count(p, q);
			continue;
		}
		all = false;
		if (!q->io.retries) /* a request that was retried did not block but failed */
			count_miss(p);
		stk__read_begin(p, q);
	}
	if (!all)
		return;
	STK_COUNT(p, reads_inline, 1);
	f->misses -= f->misses > 0;
	f->some_read_ready = true;
	stk__read_ended(p, read);
	if (read == read->sample->record->samples->reads && ++f->cached_in_a_row >= 2)
		f->may_read_ahead = false;
}

/* Tries to read all parts without blocking. Returns true if all requests are complete and their bytes name no further parts (stk__read_plan_more).
 * Otherwise submits the incomplete and the further requests, for which the chain waits. */
static bool try_read(struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_read *read, int32_t chain)
{
	bool at_hand[STK_MAX_PARTS] = {false}, complete = true;
	stk__read_plan(read, stk__request_done, &w->error);
	STK_COUNT(p, reads_started, 1);
	for (int32_t k = 0; k < read->n_requests; k++) {
		read->requests[k].io.retries = 0;
		complete &= at_hand[k] = try_request(p, w, read, &read->requests[k]);
	}
	pthread_mutex_lock(&p->lock);
	int32_t first;
	complete = complete && !stk__read_plan_more(read, stk__request_done, &first);
	const int32_t n = read->n_requests;
	if (!complete)
		read->sample->waiting |= 1ull << chain;
	account(p, read, at_hand);
	pthread_mutex_unlock(&p->lock);
	if (complete)
		return true;
	STK_COUNT(p, reads_submitted, 1);
	for (int32_t k = 0; k < n; k++) /* `read` must not be used after its last request was submitted, since it may be reused */
		if (!at_hand[k])
			stk__read_submit(p, &read->requests[k]);
	return false;
}

bool stk__fetch_now(struct stk_exec_worker *w, struct stk_sample_state *s, int32_t chain)
{
	struct stk_pipeline *p = s->record->pipeline;
	const struct stk_chain *c = stk__sample_chain(s, chain);
	bool all = true;
	for (int32_t k = 0; k < p->parts.fetch->n; k++)
		if (stk__chain_reads(c, &s->reads[k]) && s->reads[k].state == STK_READ_TRIED)
			all &= try_read(p, w, &s->reads[k], chain);
	if (!all)
		stk__fetch_ahead(p);
	return all;
}

bool stk__fetch_object_failed(const struct stk_sample_state *s)
{
	bool any = false, all = true;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		for (int32_t q = 0; s->reads[k].state == STK_READ_DONE && q < s->reads[k].n_requests; q++) {
			const struct stk_request *io = &s->reads[k].requests[q].io;
			const bool failed = stk__io_source_failed(io->status);
			any |= failed;
			all &= !failed || io->object_fails;
		}
	return any && all;
}

bool stk__fetch_source_down(const struct stk_pipeline *p)
{
	enum { MISSING_IN_A_ROW = 32 };
	return p->parts.fetch->missing_in_a_row >= MISSING_IN_A_ROW;
}

struct stk_fetch_counts stk__fetch_counts(const struct stk_pipeline *p)
{
	const struct stk_fetch *f = p->parts.fetch;
	return (struct stk_fetch_counts){.in_flight = f->in_flight, .early = f->complete_early, .read_bytes = f->read_bytes};
}

/* ---- making and ending ---- */

static bool make_read(struct stk_read *read, struct stk_sample_state *s, int32_t reader)
{
	size_t parts = (size_t)s->record->pipeline->program->readers[reader].parts;
	read->sample = s;
	read->reader = reader;
	read->requests = stk__calloc(parts, sizeof *read->requests);
	read->parts = stk__calloc(parts, sizeof *read->parts);
	return read->requests && read->parts;
}

static void find_readers(struct stk_pipeline *p, struct stk_fetch *f)
{
	for (int32_t i = 0; i < p->program->n_readers; i++) {
		bool fetches = p->program->readers[i].parts > 0;
		f->index[i] = fetches ? f->n : STK_FETCHES_NOTHING;
		if (fetches)
			f->readers[f->n++] = i;
	}
}

int64_t stk__fetch_sample_bytes(const struct stk_pipeline *p)
{
	int64_t bytes = 0;
	for (int32_t i = 0; i < p->program->n_readers; i++) {
		const int64_t parts = p->program->readers[i].parts;
		if (parts > 0)
			bytes += (int64_t)sizeof(struct stk_read) +
				 parts * (int64_t)(sizeof(struct stk_read_request) + sizeof(struct stk_read_part));
	}
	return bytes;
}

enum stk_status stk__fetch_create(struct stk_pipeline *p, struct stk_error *err)
{
	static const int64_t MOST_MEAN = (int64_t)1 << 40; /* so small that the product with the number of requests does not overflow */
	struct stk_fetch *f = p->parts.fetch = stk__calloc(1, sizeof *f);
	size_t readers = (size_t)p->program->n_readers, batch = (size_t)p->config.batch_size, samples = (size_t)p->flight.n * batch;
	if (!f)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline");
	size_t mean = p->config.read_bytes / 16;
	f->mean_bytes = mean < (size_t)MOST_MEAN ? (int64_t)mean : MOST_MEAN;
	f->pipeline = p;
	f->admission.admit = stk__fetch_admit;
	f->readers = stk__calloc(readers, sizeof *f->readers);
	f->index = stk__calloc(readers, sizeof *f->index);
	bool ok = f->readers && f->index;
	if (ok)
		find_readers(p, f);
	f->reads = ok ? stk__calloc(samples * (size_t)f->n, sizeof *f->reads) : NULL;
	ok = f->reads != NULL;
	for (size_t i = 0; ok && i < samples; i++) {
		struct stk_sample_state *s = &p->flight.records[i / batch].samples[i % batch];
		s->reads = &f->reads[i * (size_t)f->n];
		for (int32_t k = 0; ok && k < f->n; k++, f->n_reads++)
			ok = make_read(&s->reads[k], s, f->readers[k]);
	}
	return ok ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for reads of %zu samples", samples);
}

void stk__fetch_destroy(struct stk_pipeline *p)
{
	struct stk_fetch *f = p->parts.fetch;
	for (size_t i = 0; f && f->reads && i < (size_t)p->flight.n * (size_t)p->config.batch_size * (size_t)f->n; i++) {
		struct stk_read *read = &f->reads[i];
		for (int32_t q = 0; read->requests && q < p->program->readers[read->reader].parts; q++)
			stk__free(read->requests[q].uri);
		stk__free(read->requests);
		stk__free(read->parts);
	}
	if (f) {
		stk__free(f->readers);
		stk__free(f->index);
		stk__free(f->reads);
	}
	stk__free(f);
	p->parts.fetch = NULL;
}
