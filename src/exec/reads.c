/* SPDX-License-Identifier: Apache-2.0
 * Bytes. A worker that comes to a sample first tries a read that cannot block: cached files need no handover. A few reads that would block, close
 * together, turn reading ahead on: from then on requests go out in order of need, before workers come to them: `read_requests` at a time, and none
 * while as many samples lie read before their batch is open, or while `read_bytes` are held. Where some reads have been at hand, the first sample of
 * each batch is left to a worker's try; two in a row that are at hand turn reading ahead off again. */
#include "exec/device.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

bool stk__read_under_way(const struct stk_sample_state *s)
{
	return s->read == STK_READ_SUBMITTED || s->read == STK_READ_STALE;
}

/* The request of a read that is under way, and its error, are io's. */
void stk__release_bytes(struct stk_pipeline *p, struct stk_sample_state *s)
{
	if (stk__read_under_way(s))
		return;
	if (s->request.buffer) {
		p->bytes_held -= (int64_t)s->request.size;
		p->read_held--;
		stk__buffer_release(p->ctx->io, s->request.buffer);
	}
	s->request.buffer = NULL;
	s->request.data = NULL;
	stk__free(s->read_error);
	s->read_error = NULL;
}

static bool is_held(const struct stk_sample_state *s)
{
	return s->read == STK_READ_DONE && s->request.buffer;
}

void stk__reads_opened(struct stk_record *r)
{
	for (int32_t i = 0; r->pipeline->early && i < r->count; i++)
		r->pipeline->early -= is_held(&r->samples[i]);
}

/* With the lock: a read has ended; chains that waited for it are ready. Nobody waits any more for the bytes of a batch that has gone, as one does that
 * got no slot, or of a sample that was replaced. */
static void read_ended(struct stk_pipeline *p, struct stk_sample_state *s)
{
	struct stk_record *r = s->record;
	int32_t i = (int32_t)(s - r->samples);
	bool wanted = stk__record_under_way(r) && s->read != STK_READ_STALE;
	s->read = STK_READ_DONE;
	if (s->request.status == STK_OK) {
		p->read_held += s->request.buffer != NULL;
		p->bytes_held += s->request.buffer ? (int64_t)s->request.size : 0;
		p->sized += p->sized < 16;
		p->mean_bytes += ((int64_t)s->request.size - p->mean_bytes) / p->sized;
		p->missing_in_a_row = 0;
		STK_COUNT(p, bytes_read, (int64_t)s->request.size);
	} else {
		p->missing_in_a_row = s->request.status == STK_LIMIT ? 0 : p->missing_in_a_row + 1; /* a large file is there */
	}
	if (!wanted) {
		stk__release_bytes(p, s);
		s->read = STK_READ_NONE;
	}
	if (r->state < STK_BATCH_OPEN) {
		p->early += is_held(s);
		return;
	}
	for (int32_t c = 0; s->waiting; c++, s->waiting >>= 1)
		if (s->waiting & 1)
			stk__ready_chain(r, c, i);
}

static void request_done(struct stk_request *q);

void stk__reads_taken(struct stk_pipeline *p)
{
	enum { LONGEST_NS = 1000000000 }; /* a pause says nothing of the pace */
	int64_t now = stk__clock_ns(), gap = now - p->taken_ns;
	if (p->taken_ns)
		p->pace_ns += ((gap < LONGEST_NS ? gap : LONGEST_NS) / p->config.batch_size - p->pace_ns) / 8;
	p->taken_ns = now;
}

/* With the lock: the sample's read goes to io, which must know when its bytes will be needed: at the consumer's pace so far. */
static void begin_request(struct stk_pipeline *p, struct stk_sample_state *s)
{
	int64_t before = (s->record->k - p->next_deliver) * p->config.batch_size + (s - s->record->samples);
	s->needed_ns = stk__clock_ns() + p->pace_ns * before;
	s->read = STK_READ_SUBMITTED;
	p->in_flight++;
	s->record->reading++;
}

static void describe_request(struct stk_sample_state *s, const char *uri, struct stk_error *err)
{
	s->request = (struct stk_request){
		.uri = uri, .length = -1, .most = s->record->pipeline->config.memory_limit, .done = request_done, .user = s, .error = err};
}

/* The uri of a request that others serve lives in the sample's own buffer, kept for the next batch. */
static bool describe_own_request(struct stk_sample_state *s)
{
	int32_t retries = s->request.retries;
	char uri[STK_MAX_URI];
	size_t n = stk__sample_uri(s->record->pipeline->program, s->place.sample, uri, sizeof uri);
	if (n >= s->uri_room && n < sizeof uri) {
		char *more = stk__realloc(s->uri, n + 64);
		s->uri_room = more ? n + 64 : s->uri_room;
		s->uri = more ? more : s->uri;
	}
	if (n >= s->uri_room)
		return false;
	memcpy(s->uri, uri, n + 1);
	describe_request(s, s->uri, NULL);
	s->request.deadline = s->needed_ns;
	s->request.retries = retries;
	return true;
}

/* io has it from here; request_done is called, perhaps at once. */
static void submit(struct stk_pipeline *p, struct stk_sample_state *s)
{
	s->asked_ns = p->trace ? stk__clock_ns() : 0;
	if (describe_own_request(s)) {
		stk__io_submit(p->ctx->io, &s->request);
		return;
	}
	describe_request(s, "", NULL);
	stk__set_error(&s->request.error, &(struct stk_error){.code = STK_NO_MEMORY, .message = "out of memory for a read"});
	s->request.status = STK_NO_MEMORY;
	request_done(&s->request);
}

/* With the lock, which makes it one thread a row. */
static void trace_ahead(const struct stk_pipeline *p, const struct stk_sample_state *s)
{
	stk__trace_row(p, STK_ROW_STORAGE,
		&(struct stk_trace_span){.kind = STK_SPAN_READ_AHEAD,
			.batch = s->record->k,
			.first = (int32_t)(s - s->record->samples),
			.count = 1,
			.stage = -1,
			.begin_ns = s->asked_ns,
			.end_ns = stk__clock_ns()});
}

/* A request that io took has ended. On any thread. */
static void request_done(struct stk_request *q)
{
	struct stk_sample_state *s = q->user;
	struct stk_pipeline *p = s->record->pipeline;
	pthread_mutex_lock(&p->lock);
	if (p->trace)
		trace_ahead(p, s);
	STK_COUNT(p, retries, q->retries);
	p->in_flight--;
	s->record->reading--;
	p->in_callbacks++; /* keeps the pipeline until the last line below */
	s->read_error = q->error;
	q->error = NULL;
	read_ended(p, s);
	pthread_mutex_unlock(&p->lock);
	stk__pool_wake(p->ctx->pool);
	stk__read_ahead(p);
	pthread_mutex_lock(&p->lock);
	p->in_callbacks--;
	if (p->stopping)
		pthread_cond_broadcast(&p->delivered);
	pthread_mutex_unlock(&p->lock);
}

/* With the lock. */
static void count_miss(struct stk_pipeline *p, const struct stk_record *r)
{
	enum {
		MISS = 16,
		MANY = 3 * MISS
	}; /* a miss weighs as much as 16 hits; a single one, as the kernel now and then has, is no sign of a cold cache */
	p->cached_in_a_row = 0;
	p->misses += MISS;
	if (p->ahead || p->misses < MANY)
		return;
	p->misses = 0;
	p->ahead = true;
	p->read_k = r->k;
	p->read_i = 0;
}

bool stk__read_inline(
	struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, int32_t chain, int32_t i, struct stk_error *err)
{
	struct stk_sample_state *s = &r->samples[i];
	char uri[STK_MAX_URI];
	STK_COUNT(p, reads_started, 1);
	s->request.retries = 0;
	int64_t begin = p->trace ? stk__clock_ns() : 0;
	bool at_hand = stk__sample_uri(p->program, s->place.sample, uri, sizeof uri) < sizeof uri;
	if (at_hand) {
		describe_request(s, uri, err);
		if (r->device)
			stk__device_room_begin(w, r->device, &s->request);
		at_hand = stk__io_try(p->ctx->io, &s->request);
		if (r->device && at_hand && !s->request.status)
			s->staged = stk__device_room_end(w, s->request.size);
	}
	if (p->trace && at_hand)
		stk__trace_add(p->trace, (int32_t)(w - p->workers),
			&(struct stk_trace_span){.kind = STK_SPAN_READ,
				.batch = r->k,
				.first = i,
				.count = 1,
				.stage = -1,
				.begin_ns = begin,
				.end_ns = stk__clock_ns()});
	pthread_mutex_lock(&p->lock);
	s->request.uri = NULL;
	s->request.error = NULL;
	if (at_hand) {
		STK_COUNT(p, reads_inline, 1);
		p->misses -= p->misses > 0;
		p->seen_at_hand = true;
		if (s->request.status)
			stk__set_error(&s->read_error, err);
		read_ended(p, s);
		if (i == 0 && ++p->cached_in_a_row >= 2)
			p->ahead = false;
	} else {
		if (!s->request.retries) /* else it was at hand, and failed */
			count_miss(p, r);
		s->waiting |= 1ull << chain;
		begin_request(p, s);
	}
	pthread_mutex_unlock(&p->lock);
	if (!at_hand) {
		STK_COUNT(p, reads_submitted, 1);
		submit(p, s);
		stk__read_ahead(p);
	}
	return at_hand;
}

/* A single object may be larger than the window. */
bool stk__reads_full(const struct stk_pipeline *p)
{
	int64_t expected = p->bytes_held + (int64_t)p->in_flight * (p->mean_bytes > 0 ? p->mean_bytes : 1);
	return (p->in_flight || p->read_held) && (p->in_flight >= p->config.read_requests || expected >= (int64_t)p->config.read_bytes);
}

/* With the lock: the next sample that the window takes, or NULL. */
static struct stk_sample_state *next_ahead(struct stk_pipeline *p)
{
	if (!p->ahead || p->stopping || stk__reads_full(p))
		return NULL;
	for (;;) {
		if (p->read_k < p->next_deliver) {
			p->read_k = p->next_deliver;
			p->read_i = 0;
		}
		if (p->read_k >= p->next_deliver + p->n_records)
			return NULL;
		if ((p->read_k >= p->next_open && p->early >= p->config.read_requests) || !stk__create_records(p, p->read_k + 1))
			return NULL;
		struct stk_record *r = stk__record(p, p->read_k);
		while (p->read_i < r->count && stk__record_under_way(r)) { /* a batch that failed needs no bytes */
			struct stk_sample_state *s = &r->samples[p->read_i++];
			bool probe = p->read_i == 1 && p->seen_at_hand; /* the first sample */
			if (s->read == STK_READ_NONE && !s->dropped && !probe) {
				s->request.retries = 0;
				begin_request(p, s);
				return s;
			}
		}
		p->read_k++;
		p->read_i = 0;
	}
}

void stk__reads_end(struct stk_pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->in_callbacks) /* one of them may be about to submit what it was told before the pipeline stopped */
		pthread_cond_wait(&p->delivered, &p->lock);
	for (int64_t i = 0; i < (int64_t)p->n_records * p->config.batch_size && p->in_flight; i++) {
		struct stk_sample_state *s = &p->records[i / p->config.batch_size].samples[i % p->config.batch_size];
		if (!stk__read_under_way(s))
			continue;
		pthread_mutex_unlock(&p->lock);
		stk__io_cancel(p->ctx->io, &s->request);
		pthread_mutex_lock(&p->lock);
	}
	while (p->in_flight || p->in_callbacks)
		pthread_cond_wait(&p->delivered, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

void stk__read_ahead(struct stk_pipeline *p)
{
	for (;;) {
		pthread_mutex_lock(&p->lock);
		struct stk_sample_state *s = next_ahead(p);
		pthread_mutex_unlock(&p->lock);
		if (!s)
			return;
		STK_COUNT(p, reads_started, 1);
		STK_COUNT(p, reads_submitted, 1);
		submit(p, s);
	}
}
