/* SPDX-License-Identifier: Apache-2.0
 *
 * Submits the requests of reads, and reads ahead while fewer than `read_requests` requests are under way. For batches that are not open yet, the sum of the
 * requests under way and of the complete reads of such batches must also be less than 2 * `read_requests`. No request is submitted ahead while the buffers
 * in use, or expected, exceed `read_bytes`; an object that turns out to be larger than expected waits until buffers are released.
 *
 * Once a read has ended without blocking, the first sample of each batch is left for a worker to try. If two such tries in a row do not block, reading
 * ahead ends. */
#include "exec/fetch_read.h"

#include "base/clock.h"

#include <string.h>

size_t stk__read_uri(const struct stk_read_request *q, char *uri, size_t capacity)
{
	const struct stk_read *read = q->read;
	const struct stk_program *g = read->sample->record->pipeline->program;
	const struct stk_program_node *n = &g->nodes[g->readers[read->reader].node];
	const struct stk_reader_def *reader = n->def->reader;
	return reader->parts ? reader->part_uri(n->shared, q->uri_number, uri, capacity)
			     : reader->uri(n->shared, q->uri_number, uri, capacity);
}

/* Stores the URI of a submitted request in the request's own buffer, which is reused for the next batch. */
static enum stk_status keep_uri(struct stk_read_request *q, struct stk_error *err)
{
	char uri[STK_MAX_URI];
	size_t n = stk__read_uri(q, uri, sizeof uri);
	if (n >= sizeof uri)
		return stk__fail(err, STK_INVALID, "a path of %zu bytes: up to %zu can be read", n, sizeof uri - 1);
	if (n >= q->uri_capacity) {
		char *more = stk__realloc(q->uri, n + 64);
		q->uri_capacity = more ? n + 64 : q->uri_capacity;
		q->uri = more ? more : q->uri;
	}
	if (n >= q->uri_capacity)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a read");
	memcpy(q->uri, uri, n + 1);
	q->io.uri = q->uri;
	return STK_OK;
}

/* Adds the span of a request that has ended to the trace. Call with the lock held, so that one thread at a time writes the row. */
static void trace_ahead(const struct stk_pipeline *p, const struct stk_read_request *q)
{
	const struct stk_sample_state *s = q->read->sample;
	stk__trace_row(p, STK_ROW_STORAGE,
		&(struct stk_trace_span){.kind = STK_SPAN_READ_AHEAD,
			.batch = s->record->k,
			.first = (int32_t)(s - s->record->samples),
			.count = 1,
			.stage = -1,
			.begin_ns = q->asked_ns,
			.end_ns = stk__clock_ns()});
}

/* The requests that follow when the earlier requests of a read have ended: requests `first` to `first` + `count` - 1 of the read. */
struct further {
	struct stk_read *read;
	int32_t first, count;
};

/* Plans the further requests of a read after its earlier requests have all ended, or all of its requests again, and marks them as under way. Returns false if
 * no requests follow, or if the read is no longer needed. Call with the lock held. */
static bool begin_new_requests(struct stk_pipeline *p, struct stk_read *read, struct further *out)
{
	int32_t first = 0;
	if (read->state != STK_READ_ASKED || p->run.stopping || !stk__record_under_way(read->sample->record) ||
		(!stk__read_plan_again(read, stk__request_done) && !stk__read_plan_more(read, stk__request_done, &first)))
		return false;
	*out = (struct further){read, first, read->n_requests - first};
	for (int32_t k = 0; k < out->count; k++)
		stk__read_begin(p, &read->requests[first + k]);
	return true;
}

/* Records the end of a request. Returns whether to wake workers: a chain may wait for its bytes if the batch is open, or a worker may have postponed a read.
 * further: set to the requests that the caller must submit after it has released the lock; NULL if no requests can follow. Call with the lock held. */
static bool take_answer(struct stk_pipeline *p, struct stk_read_request *q, struct further *further)
{
	struct stk_fetch *f = p->parts.fetch;
	struct stk_read *read = q->read;
	struct stk_record *r = read->sample->record;
	if (p->trace)
		trace_ahead(p, q);
	STK_COUNT(p, retries, q->io.retries);
	f->in_flight--;
	r->reading--;
	f->unknown -= !q->admitted;
	q->under_way = false;
	q->error = q->io.error;
	q->io.error = NULL;
	stk__read_count(p, q);
	if (--read->left == 0) {
		if (further && begin_new_requests(p, read, further))
			return false;
		stk__read_ended(p, read);
	}
	bool useful = r->state != STK_BATCH_PLANNED || f->some_read_postponed;
	f->some_read_postponed &= !useful;
	return useful;
}

/* Handles a request that ended at once. Unlike stk__request_done, does not begin further reads: the caller does that, so that reads which end at once do not
 * recurse. Call without the lock. */
static void end_at_once(struct stk_pipeline *p, struct stk_read_request *q)
{
	pthread_mutex_lock(&p->lock);
	bool useful = take_answer(p, q, NULL); /* no requests follow: this one failed, or its reader names all parts at once */
	pthread_mutex_unlock(&p->lock);
	if (useful)
		stk__pool_wake(p->pool);
}

/* Submits a request to io. Ends it at once if the search of tars has read its bytes already, or if its URI cannot be stored. Call without the lock. */
void stk__read_submit(struct stk_pipeline *p, struct stk_read_request *q)
{
	q->asked_ns = p->trace ? stk__clock_ns() : 0;
	q->io.error = NULL;
	q->io.allocate = NULL;
	q->io.buffer = NULL;
	q->io.data = NULL;
	if (stk__surveyed_read(p, q->read->sample->place.sample, &q->io)) {
		end_at_once(p, q);
		return;
	}
	struct stk_error err = {0};
	q->io.status = keep_uri(q, &err);
	if (q->io.status == STK_OK) {
		stk__io_submit(p->io, &q->io);
		return;
	}
	stk__set_error(&q->io.error, &err);
	end_at_once(p, q);
}

/* Until the first object has arrived, updates the estimated mean size of objects with the size that a request states, if it states one. */
static void expect(struct stk_fetch *f, const struct stk_request *r)
{
	int64_t size = r->length >= 0 ? r->length : r->expected.size;
	if (f->mean_count || size <= 0)
		return;
	f->first_requests += f->first_requests < 16;
	f->mean_bytes = f->first_requests > 1 ? f->mean_bytes + (size - f->mean_bytes) / f->first_requests : size;
}

/* Returns the expected time from one sample to the next in nanoseconds: the slower of the rate at which the consumer takes batches and the rate at which the
 * store serves all its callers. So a new pipeline gets no larger share of the store than the others. */
static int64_t pace_of(const struct stk_pipeline *p)
{
	enum { UNKNOWN_NS = 5000000 };
	const struct stk_fetch *f = p->parts.fetch;
	const int64_t known = stk__io_pace_ns(p->io), store = (known ? known : UNKNOWN_NS) * f->n;
	return f->pace_ns > store ? f->pace_ns : store;
}

/* Marks a request as under way, and sets its deadline, by which io orders requests. Call with the lock held. */
void stk__read_begin(struct stk_pipeline *p, struct stk_read_request *q)
{
	const struct stk_sample_state *s = q->read->sample;
	int64_t samples_before = (s->record->k - p->flight.next_deliver) * p->config.batch_size + (s - s->record->samples);
	q->io.deadline = stk__clock_ns() + pace_of(p) * samples_before;
	if (q->read->deadline && q->io.deadline > q->read->deadline)
		q->io.deadline = q->read->deadline;
	q->io.turn = s->record->k;
	expect(p->parts.fetch, &q->io);
	q->under_way = true;
	q->admitted = 0;
	p->parts.fetch->unknown++;
	if (q->io.length >= 0)
		stk__read_admit(p->parts.fetch, q, stk__buffer_rounded((size_t)q->io.length));
	p->parts.fetch->in_flight++;
	s->record->reading++;
	q->read->left++;
	q->read->state = STK_READ_ASKED;
}

void stk__request_done(struct stk_request *io)
{
	struct stk_read_request *q = io->user;
	struct stk_pipeline *p = q->read->sample->record->pipeline;
	pthread_mutex_lock(&p->lock);
	p->parts.fetch->in_callbacks++; /* prevents the destruction of the pipeline until the end of this function */
	struct further further = {0};
	bool useful = take_answer(p, q, &further);
	pthread_mutex_unlock(&p->lock);
	for (int32_t k = 0; k < further.count; k++) /* after the last request is submitted, the read may belong to another sample */
		stk__read_submit(p, &further.read->requests[further.first + k]);
	if (useful)
		stk__pool_wake(p->pool);
	stk__fetch_ahead(p);
	pthread_mutex_lock(&p->lock);
	p->parts.fetch->in_callbacks--;
	if (p->run.stopping)
		pthread_cond_broadcast(&p->delivered);
	pthread_mutex_unlock(&p->lock);
}

bool stk__fetch_is_full(const struct stk_pipeline *p)
{
	const struct stk_fetch *f = p->parts.fetch;
	int64_t expected = f->admitted + (int64_t)f->unknown * (f->mean_bytes > 0 ? f->mean_bytes : 1);
	/* with nothing in flight or in memory the window is not full, so that one object may exceed it */
	return (f->in_flight || f->complete) && (f->in_flight >= p->config.read_requests || expected >= (int64_t)p->config.read_bytes);
}

/* ---- admission of requests ---- */

/* Returns whether a request may exceed the window because the consumer waits for its bytes; then f->over_limit is its sample. One sample at a time may do
 * so if its bytes are released after its chain has run. If the batch releases nothing before its end (on the GPU, with several levels), all samples may. */
static bool is_needed(struct stk_fetch *f, const struct stk_sample_state *s)
{
	const struct stk_pipeline *p = f->pipeline;
	if (s->record->k > p->flight.next_deliver)
		return false;
	if (p->config.device_id >= 0 || p->program->n_levels > 1 || !f->over_limit)
		f->over_limit = s;
	return f->over_limit == s;
}

bool stk__fetch_admit(struct stk_admission *a, struct stk_request *io, size_t bytes)
{
	struct stk_fetch *f = (struct stk_fetch *)((char *)a - offsetof(struct stk_fetch, admission));
	struct stk_read_request *q = io->user;
	pthread_mutex_lock(&f->pipeline->lock);
	const int64_t others = f->admitted - (int64_t)q->admitted;
	const bool may = bytes <= q->admitted || others <= 0 || others + (int64_t)bytes <= (int64_t)f->pipeline->config.read_bytes ||
			 is_needed(f, q->read->sample);
	if (may)
		stk__read_admit(f, q, bytes);
	f->admission_refused |= !may;
	pthread_mutex_unlock(&f->pipeline->lock);
	return may;
}

/* ---- reading ahead ---- */

void stk__fetch_batch_delivered(struct stk_pipeline *p)
{
	/* maximum gap that counts; a longer one means that the consumer paused, and says little about its rate */
	const int64_t LONGEST_NS = 4000000000;
	struct stk_fetch *f = p->parts.fetch;
	const int64_t now = stk__clock_ns(), gap = now - f->last_delivery_ns;
	if (f->last_delivery_ns)
		f->pace_ns += ((gap < LONGEST_NS ? gap : LONGEST_NS) / p->config.batch_size - f->pace_ns) / 8;
	f->last_delivery_ns = now;
}

void stk__fetch_awaits_next(struct stk_pipeline *p)
{
	struct stk_fetch *f = p->parts.fetch;
	atomic_store_explicit(&f->admission.awaited, p->flight.next_deliver, memory_order_relaxed);
	stk__fetch_ask_again(f);
}

/* Skips a read that a worker has begun or will begin. Raises f->deadline to the deadlines of its requests under way. So later samples get later deadlines, in
 * whose order sources begin requests. read->deadline also limits the requests for a replacement of the sample. */
static void pass_read(struct stk_fetch *f, struct stk_read *read)
{
	if (!f->deadline)
		f->deadline = stk__clock_ns();
	for (int32_t q = 0; stk__read_under_way(read) && q < read->n_requests; q++)
		if (read->requests[q].io.deadline > f->deadline)
			f->deadline = read->requests[q].io.deadline;
	if (!read->deadline)
		read->deadline = f->deadline;
}

/* Returns the batch's first read that has not begun, or NULL. Continues where the last search ended. Leaves out dropped samples and, once a read has ended
 * without blocking, the batch's first sample, which a worker tries to read. */
static struct stk_read *next_of(struct stk_fetch *f, struct stk_record *r)
{
	for (; f->read_i < r->count; f->read_i++, f->read_j = 0) {
		struct stk_sample_state *s = &r->samples[f->read_i];
		bool probe = f->read_i == 0 && f->some_read_ready;
		while (f->read_j < f->n && !s->dropped) {
			struct stk_read *read = &s->reads[f->read_j++];
			if (read->state == STK_READ_NONE && !probe)
				return read;
			pass_read(f, read);
		}
	}
	return NULL;
}

/* Raises the deadline if necessary, so that deadlines never decrease. The estimated rate varies, but a sample must never wait for a later one. */
static void keep_order(struct stk_fetch *f, struct stk_read_request *q)
{
	if (q->io.deadline <= f->deadline)
		q->io.deadline = f->deadline + 1;
	f->deadline = q->io.deadline;
	q->read->deadline = q->io.deadline;
}

/* Returns whether the batch is more than one epoch after the consumer's. Without this limit, a data set that is smaller than the window would be requested
 * many times, although the run, or a validation pass, may end with this epoch. */
static bool is_too_early(const struct stk_pipeline *p, const struct stk_record *r)
{
	return r->at.epoch > p->at.epoch + 1;
}

/* Returns the next read that the window allows, or NULL. Marks the read's requests as under way; the caller submits them. Call with the lock held. */
static struct stk_read *next_ahead(struct stk_pipeline *p)
{
	struct stk_fetch *f = p->parts.fetch;
	if (!f->may_read_ahead || p->run.stopping || stk__fetch_is_full(p))
		return NULL;
	for (;; f->read_k++, f->read_i = f->read_j = 0) {
		if (f->read_k < p->flight.next_deliver) {
			f->read_k = p->flight.next_deliver;
			f->read_i = f->read_j = 0;
		}
		if (f->read_k >= p->flight.next_deliver + p->flight.n)
			return NULL;
		if ((f->read_k >= p->flight.next_open && f->complete_early + f->in_flight >= 2 * p->config.read_requests) ||
			!stk__create_records(p, f->read_k + 1))
			return NULL;
		struct stk_record *r = stk__record(p, f->read_k);
		if (is_too_early(p, r))
			return NULL;
		struct stk_read *read = stk__record_under_way(r) ? next_of(f, r) : NULL; /* a failed or ended batch needs no bytes */
		if (!read)
			continue;
		stk__read_plan(read, stk__request_done, NULL);
		for (int32_t q = 0; q < read->n_requests; q++) {
			read->requests[q].io.retries = 0;
			stk__read_begin(p, &read->requests[q]);
			keep_order(f, &read->requests[q]);
		}
		return read;
	}
}

void stk__fetch_ahead(struct stk_pipeline *p)
{
	for (;;) {
		pthread_mutex_lock(&p->lock);
		struct stk_read *read = next_ahead(p);
		int32_t n = read ? read->n_requests : 0;
		pthread_mutex_unlock(&p->lock);
		if (!read)
			return;
		if (!n) /* the sample has no bytes to request, so a worker handles it */
			continue;
		STK_COUNT(p, reads_started, 1);
		STK_COUNT(p, reads_submitted, 1);
		for (int32_t q = 0; q < n; q++)
			stk__read_submit(p, &read->requests[q]);
	}
}

bool stk__fetch_runs_ahead(const struct stk_pipeline *p)
{
	return p->parts.fetch->may_read_ahead;
}

void stk__fetch_restart(struct stk_pipeline *p)
{
	p->parts.fetch->read_k = p->flight.next_deliver;
	p->parts.fetch->read_i = p->parts.fetch->read_j = 0;
	p->parts.fetch->complete_early = 0;
	p->parts.fetch->deadline = 0;
	stk__fetch_awaits_next(p);
}

static void cancel(struct stk_pipeline *p, struct stk_read *read)
{
	for (int32_t q = 0; q < read->n_requests; q++) {
		if (!read->requests[q].under_way) /* this request has ended already */
			continue;
		pthread_mutex_unlock(&p->lock);
		stk__io_cancel(p->io, &read->requests[q].io);
		pthread_mutex_lock(&p->lock);
	}
}

void stk__fetch_end(struct stk_pipeline *p)
{
	struct stk_fetch *f = p->parts.fetch;
	pthread_mutex_lock(&p->lock);
	while (f->in_callbacks) /* a callback may still be submitting a read that was chosen before the pipeline stopped */
		pthread_cond_wait(&p->delivered, &p->lock);
	for (size_t i = 0; i < f->n_reads && f->in_flight; i++)
		if (stk__read_under_way(&f->reads[i]))
			cancel(p, &f->reads[i]);
	while (f->in_flight || f->in_callbacks)
		pthread_cond_wait(&p->delivered, &p->lock);
	pthread_mutex_unlock(&p->lock);
}
