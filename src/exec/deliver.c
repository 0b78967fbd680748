/* SPDX-License-Identifier: Apache-2.0
 * The consumer's side of a pipeline: waits for batches, applies the policy for bad samples, and ends epochs. */
#include "exec/device.h"
#include "exec/engine.h"
#include "exec/feed.h"
#include "exec/fetch.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

struct stk_delivery {
	bool end_pending; /* the epoch's last batch was delivered, so that the next call returns STK_END */
	bool stall_reported;
	int64_t waited_since_ns; /* time since which the consumer waits for the next batch, in one or several calls; 0: it does not wait */
	const struct stk_batch *last; /* the batch delivered last, only to compare its address; NULL: none, or it was put back */
	struct stk_position before;   /* the run's position before `last` was delivered */
	struct {
		struct stk_batch *batch; /* the batch to deliver next; NULL: none was put back */
		struct stk_position at;  /* the run's position after it */
		bool end_pending;
	} put_back;
	struct {
		bool any; /* whether the last call that could take a batch took one that had failed */
		int64_t epoch;
		int32_t planned;
		bool is_last;
	} failed;
	struct {
		int64_t epoch, count;
	} errors; /* count: number of bad samples in the batches of `epoch` that were delivered so far */
};

enum stk_status stk__deliver_create(struct stk_pipeline *p, struct stk_error *err)
{
	p->at.step = -1;
	p->parts.delivery = stk__calloc(1, sizeof *p->parts.delivery);
	return p->parts.delivery ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline");
}

void stk__deliver_destroy(struct stk_delivery *d)
{
	if (!d)
		return;
	stk_batch_unref(&d->put_back.batch);
	stk__free(d);
}

/* Opens batches on the consumer's thread if there are no workers. Call with the lock held. */
static void open_batches(struct stk_pipeline *p)
{
	while (!p->callbacks->crew && !atomic_load(&p->run.cancelled) && stk__open_next(p)) {
	}
}

enum stk_status stk_pipeline_start(struct stk_pipeline *p, struct stk_error *err)
{
	if (STK_NEED(err, p))
		return STK_INVALID;
	enum stk_status s = stk__context_check(p->ctx, err);
	if (s || p->run.started)
		return s;
	if ((s = stk__surveyed_begin(p, err)) || (s = stk__feed_start(p, err)))
		return s;
	p->run.started = true;
	if (p->callbacks->crew)
		stk__pool_join(p->pool, &p->client);
	pthread_mutex_lock(&p->lock);
	open_batches(p);
	pthread_mutex_unlock(&p->lock);
	return STK_OK;
}

void stk_pipeline_cancel(struct stk_pipeline *p)
{
	if (!p)
		return;
	atomic_store(&p->run.halt.requested, true);
	atomic_store(&p->run.cancelled,
		true); /* the waiting thread is not woken, since that needs the lock; it reads the flag at least every 50 ms */
}

/* ---- waiting ---- */

static const char *stage_of(const struct stk_pipeline *p, const struct stk_record *r, const struct stk_sample_state **s)
{
	if (r->state == STK_BATCH_FREE && r->reading)
		return "a read of an earlier batch that has failed";
	return r->state < STK_BATCH_OPEN ? "a free slot" : p->callbacks->stage(r, s);
}

/* Writes a sentence about the work that the next batch waits for, for timeouts and for the notice after 30 s. Call with the lock held. */
static void describe_stall(struct stk_pipeline *p, int64_t waited_ms, char *text, size_t capacity)
{
	const struct stk_record *r = stk__record(p, p->flight.next_deliver);
	char uri[STK_MAX_URI] = "";
	const struct stk_sample_state *sample = NULL;
	const char *stage = stage_of(p, r, &sample);
	if (sample)
		stk__sample_uri(p->program, sample->place.sample, uri, sizeof uri);
	snprintf(text, capacity,
		"no batch for %g s: batch %lld waits for %s%s%.700s; %d reads are under way, %d batches are held by the consumer",
		(double)(waited_ms / 100) / 10, (long long)p->flight.next_deliver, stage, uri[0] ? ": " : "", uri,
		stk__fetch_counts(p).in_flight, p->ring->n_out - (int32_t)(p->flight.next_open - p->flight.next_deliver));
}

/* Fails if there is neither a free slot nor a batch under way, because the consumer would wait forever. If the ring would now try to return a slot, wakes a
 * worker for the try, since nothing else may do so. Call with the lock held. */
static enum stk_status check_starved(struct stk_pipeline *p, struct stk_error *err)
{
	if (p->flight.next_open != p->flight.next_deliver || !stk__open_waits_for_slot(p))
		return STK_OK;
	enum stk_ring_lack lack = stk__ring_lacks(p->ring);
	if (lack)
		return stk__held_batches_error(p, lack, err);
	if (p->callbacks->crew)
		stk__pool_wake_one(p->pool);
	return STK_OK;
}

static void wait_at_most(struct stk_pipeline *p, int64_t until_ns)
{
	enum { SLICE_NS = 50000000 };
	int64_t now = stk__clock_ns(), end = now + SLICE_NS;
	end = until_ns >= 0 && until_ns < end ? until_ns : end;
	struct timespec t = {end / 1000000000, end % 1000000000};
	pthread_cond_timedwait(&p->delivered, &p->lock, &t);
}

static enum stk_status wait_done(struct stk_pipeline *p, int64_t ms, struct stk_record **out, struct stk_error *err)
{
	enum { STALL_MS = 30000 };
	int64_t begin = stk__clock_ns(), until = ms >= 0 ? stk__clock_after_ms(begin, ms) : -1;
	bool late = stk__record(p, p->flight.next_deliver)->state <= STK_BATCH_OPEN; /* true if the cores have not finished the batch yet */
	char text[1000];
	if (p->parts.device)
		stk__device_adapt_batches(p, ms != 0);
	if (!p->parts.delivery->waited_since_ns)
		p->parts.delivery->waited_since_ns = begin;
	for (;;) {
		open_batches(p); /* a slot may have become free */
		struct stk_record *r = stk__record(p, p->flight.next_deliver);
		if (atomic_load(&p->run.cancelled))
			return stk__fail(err, STK_CANCELLED, "the pipeline was cancelled");
		bool done = r->state == STK_BATCH_FINISHED, on_its_way = done && !p->callbacks->arrived(r);
		if (done && !on_its_way) {
			*out = r;
			if (late)
				STK_COUNT(p, late_ns, stk__clock_ns() - begin);
			p->parts.delivery->stall_reported = false;
			p->parts.delivery->waited_since_ns = 0;
			return STK_OK;
		}
		enum stk_status s = check_starved(p, err);
		if (s)
			return s;
		if (ms == 0)
			return stk__fail(err, STK_TIMEOUT, "the next batch is not ready");
		int64_t now = stk__clock_ns(), waited = (now - p->parts.delivery->waited_since_ns) / 1000000;
		if (until >= 0 && now >= until) {
			describe_stall(p, waited, text, sizeof text);
			return stk__fail(err, STK_TIMEOUT, "%s", text);
		}
		if (waited >= STALL_MS && !p->parts.delivery->stall_reported) {
			p->parts.delivery->stall_reported = true;
			describe_stall(p, waited, text, sizeof text);
			pthread_mutex_unlock(&p->lock);
			stk__notify(p->ctx, STK_LOG_WARNING, "%s", text);
			pthread_mutex_lock(&p->lock);
			continue;
		}
		if (on_its_way)
			p->callbacks->wait(p, now - begin);
		else
			wait_at_most(p, until);
	}
}

enum stk_status stk_pipeline_end_within(struct stk_pipeline *p, int64_t ms, struct stk_error *err)
{
	if (STK_NEED(err, p))
		return STK_INVALID;
	const int64_t until = stk__clock_deadline(ms);
	enum stk_status s = stk__context_check(p->ctx, err);
	if (s || stk__feed_is_calling(p) ||
		stk__pool_is_worker(p->pool)) /* this thread does a part of the pipeline's work itself, so it would wait forever */
		return s;
	stk_pipeline_cancel(p);
	pthread_mutex_lock(&p->lock);
	p->run.stopping = true;
	while (stk__feed_calls(p) && stk__clock_ns() < until)
		wait_at_most(p, until);
	bool calls = stk__feed_calls(p);
	pthread_mutex_unlock(&p->lock);
	if (!calls && p->callbacks->crew) {
		int64_t left;
		do {
			left = (until - stk__clock_ns()) / 1000000;
			calls = !stk__pool_leave_within(p->pool, &p->client, left > 0 ? left : 0);
		} while (calls && left > 0); /* the pool waits a few days at most */
	}
	return calls ? stk__fail(err, STK_TIMEOUT, "a user's source or function has not returned") : STK_OK;
}

/* ---- delivering ---- */

/* Adds the bad samples of the batch to the epoch's count, and fails if there are too many. Batches that are not delivered yet do not count. */
static enum stk_status check_errors(struct stk_pipeline *p, const struct stk_record *r, struct stk_error *err)
{
	struct stk_delivery *d = p->parts.delivery;
	if (d->errors.epoch != r->at.epoch) {
		d->errors.epoch = r->at.epoch;
		d->errors.count = 0;
	}
	d->errors.count += r->n_bad;
	double limit = p->config.max_errors > 0 ? p->config.max_errors : 0.01;
	if (p->config.max_errors == STK_NO_BAD_SAMPLES)
		limit = 0;
	else if (limit < 1)
		limit = p->order.size > 0 && !p->order.as_met ? ceil(limit * (double)p->order.size) : 100;
	if (p->config.on_error == STK_ON_ERROR_RAISE || (double)d->errors.count <= limit)
		return STK_OK;
	return stk__fail(err, STK_LIMIT, "%lld bad samples in epoch %lld, over max_errors (%.0f); the last: %.700s",
		(long long)d->errors.count, (long long)stk__shown_epoch(p, r->at.epoch), limit, stk__bad_last(p));
}

/* Sets *out to the record's batch, which is made here if no worker has made it. Returns the record's error if it has one, or STK_NO_MEMORY. */
static enum stk_status hand_over(struct stk_pipeline *p, struct stk_record *r, struct stk_batch **out, struct stk_error *err)
{
	if (r->result.kind) {
		/* callers of stk_pipeline_next take STK_TIMEOUT to mean that no batch is ready yet */
		enum stk_status s = r->result.error.code == STK_TIMEOUT ? STK_IO : r->result.error.code;
		if (err) {
			*err = r->result.error;
			err->code = s;
		}
		return s;
	}
	*out = r->batch ? r->batch : stk__batch_make(p, r);
	r->batch = NULL;
	if (!*out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a batch");
	stk__batch_deliver(*out);
	return STK_OK;
}

/* Delivers a record. Call with the lock held; it is released while the batch is handed over. */
static enum stk_status take_record(struct stk_pipeline *p, struct stk_record *r, struct stk_batch **out, struct stk_error *err)
{
	stk__fetch_batch_delivered(p);
	stk__bad_deliver(r);
	bool ended = r->result.kind == STK_RESULT_END;
	enum stk_status s = ended ? STK_END : STK_OK;
	if (s == STK_OK && r->result.kind != STK_RESULT_ERROR)
		s = check_errors(p, r, err);
	if (s == STK_OK && r->result.kind != STK_RESULT_ERROR)
		s = stk__bad_check_row(p, err);
	p->parts.delivery->before = p->at;
	/* ended: the epoch had no batch after the last delivered one */
	p->at = (struct stk_position){.epoch = r->at.epoch, .step = r->at.step, .last = ended || r->at.last};
	if (!ended) {
		p->parts.delivery->end_pending = r->at.last && !(p->program->reader >= 0 && p->order.tail == STK_TAIL_WRAP);
		STK_COUNT(p, batches_delivered, 1);
	}
	stk__record_enter(r, STK_BATCH_DELIVERED);
	pthread_mutex_unlock(&p->lock);
	stk__surveyed_delivered(p, r);
	if (s == STK_OK)
		s = hand_over(p, r, out, err);
	p->parts.delivery->failed.any = s && !ended;
	p->parts.delivery->failed.epoch = r->at.epoch;
	p->parts.delivery->failed.planned = r->at.count;
	p->parts.delivery->failed.is_last = r->at.last;
	stk__record_return(r);
	pthread_mutex_lock(&p->lock);
	stk__record_reset(r);
	p->flight.next_deliver++;
	p->flight.asked = false;
	stk__fetch_awaits_next(p);
	return s;
}

/* Returns whether it is worth waiting to learn if the epoch has another batch: the batch can still be opened, a source has yet to report about it, or
 * another thread is about to finish it. Call with the lock held. */
static bool next_batch_is_coming(const struct stk_pipeline *p, const struct stk_record *r)
{
	if (!p->run.started || p->run.stopping || atomic_load(&p->run.cancelled))
		return false;
	if (p->flight.next_open == p->flight.next_deliver)
		return !stk__open_waits_for_slot(p);
	return stk__feed_waits(r) || r->result.kind == STK_RESULT_END; /* RESULT_END: another thread is about to make the batch FINISHED */
}

bool stk__deliver_ends_next(struct stk_pipeline *p)
{
	enum { PATIENCE_NS = 1000000000 };
	if (p->parts.delivery->put_back.batch)
		return false;
	if (stk__feed_is_calling(p)) /* this thread runs a source of this pipeline, so it would wait forever */
		return false;
	const int64_t until = stk__clock_ns() + PATIENCE_NS;
	pthread_mutex_lock(&p->lock);
	const struct stk_record *r = stk__record(p, p->flight.next_deliver);
	while (r->state != STK_BATCH_FINISHED && next_batch_is_coming(p, r) && stk__clock_ns() < until)
		wait_at_most(p, until);
	const bool ends = r->state == STK_BATCH_FINISHED && r->result.kind == STK_RESULT_END;
	pthread_mutex_unlock(&p->lock);
	return ends;
}

/* Waits for the next batch, and records the wait in the trace. Does not record a call with ms = 0 that finds no batch. */
static enum stk_status wait_traced(struct stk_pipeline *p, int64_t ms, struct stk_record **r, struct stk_error *err)
{
	int64_t begin = stk__clock_ns();
	if (ms != 0)
		stk__range_begin(p->ctx->ranges, STK_SPAN_WAIT, p->flight.next_deliver);
	enum stk_status s = wait_done(p, ms, r, err);
	if (ms == 0 && s == STK_TIMEOUT)
		return s;
	if (ms == 0)
		stk__range_begin(p->ctx->ranges, STK_SPAN_WAIT, p->flight.next_deliver);
	stk__range_end(p->ctx->ranges);
	int64_t end = stk__clock_ns();
	STK_COUNT(p, wait_ns, end - begin);
	stk__trace_row(p, STK_ROW_CONSUMER,
		&(struct stk_trace_span){
			.kind = STK_SPAN_WAIT, .batch = p->flight.next_deliver, .stage = -1, .begin_ns = begin, .end_ns = end});
	return s;
}

/* Delivers the batch that was put back. */
static struct stk_batch *take_put_back(struct stk_pipeline *p)
{
	struct stk_delivery *d = p->parts.delivery;
	struct stk_batch *batch = d->put_back.batch;
	d->put_back.batch = NULL;
	d->last = batch;
	d->before = p->at;
	pthread_mutex_lock(&p->lock);
	p->at = d->put_back.at;
	pthread_mutex_unlock(&p->lock);
	d->end_pending = d->put_back.end_pending;
	STK_COUNT(p, batches_delivered, 1);
	return batch;
}

bool stk_pipeline_failed_batch(const struct stk_pipeline *p, int64_t *epoch, int32_t *planned, bool *is_last)
{
	if (!p || !epoch || !planned || !is_last || !p->parts.delivery->failed.any)
		return false;
	*epoch = p->parts.delivery->failed.epoch;
	*planned = p->parts.delivery->failed.planned;
	*is_last = p->parts.delivery->failed.is_last;
	return true;
}

enum stk_status stk_pipeline_put_back(struct stk_pipeline *p, struct stk_batch *batch, struct stk_error *err)
{
	if (STK_NEED(err, p, batch))
		return STK_INVALID;
	enum stk_status s = stk__context_check(p->ctx, err);
	struct stk_delivery *d = p->parts.delivery;
	if (s)
		return s;
	if (batch != d->last)
		return stk__fail(err, STK_STATE, "only the batch that was delivered last can be put back");
	d->last = NULL;
	d->put_back.batch = stk_batch_ref(batch);
	d->put_back.at = p->at;
	d->put_back.end_pending = d->end_pending;
	pthread_mutex_lock(&p->lock);
	p->at = d->before;
	pthread_mutex_unlock(&p->lock);
	d->end_pending = false;
	STK_COUNT(p, batches_delivered, -1);
	return STK_OK;
}

enum stk_status stk_pipeline_next_within(struct stk_pipeline *p, int64_t ms, struct stk_batch **out, struct stk_error *err)
{
	if (STK_NEED(err, p))
		return STK_INVALID;
	struct stk_record *r = NULL;
	char notice[512];
	if (out) {
		*out = NULL;
		p->parts.delivery->failed.any = false;
	}
	enum stk_status s = stk_pipeline_start(p, err);
	if (s)
		return s;
	if (p->parts.delivery->put_back.batch) {
		if (out)
			*out = take_put_back(p);
		return STK_OK;
	}
	if (p->parts.delivery->end_pending) {
		if (!out)
			return STK_OK;
		p->parts.delivery->end_pending = false;
		p->parts.delivery->last = NULL;
		return STK_END;
	}
	pthread_mutex_lock(&p->lock);
	if (p->config.epoch_by_epoch && !p->flight.asked) {
		p->flight.asked = true;
		if (p->callbacks->crew)
			stk__pool_wake_one(p->pool); /* the batch may be the first of an epoch, which no worker may open before */
	}
	open_batches(p);
	s = wait_traced(p, ms, &r, err);
	if (s == STK_OK && out) {
		s = take_record(p, r, out, err);
		p->parts.delivery->last = *out;
	}
	pthread_mutex_unlock(&p->lock);
	stk__warn_of_held_batches(p);
	if (stk__storage_notice(p->storage, notice))
		stk__notify(p->ctx, STK_LOG_WARNING, "%s", notice);
	while (stk__surveyed_notice(p, notice))
		stk__notify(p->ctx, STK_LOG_WARNING, "%s", notice);
	/* Callers wait in short slices. After each one a worker is woken, so that it notices events without a signal, such as the end of a stream capture. */
	if (p->callbacks->crew && (s != STK_TIMEOUT || ms != 0))
		stk__pool_wake_one(p->pool);
	return s;
}

enum stk_status stk_pipeline_next(struct stk_pipeline *p, struct stk_batch **out, struct stk_error *err)
{
	if (STK_NEED(err, p, out))
		return STK_INVALID;
	return stk_pipeline_next_within(p, p->config.timeout_ms ? p->config.timeout_ms : -1, out, err);
}

/* ---- skipping an epoch ---- */

/* Returns the number of the first batch that is not delivered yet and belongs to an epoch after `epoch`. Epochs differ in length, so this searches. */
static int64_t next_epoch_batch(const struct stk_pipeline *p, int64_t epoch)
{
	int64_t k = p->flight.next_deliver, step = 1;
	while (stk__order_batch(&p->order, k + step).epoch <= epoch)
		step *= 2;
	for (int64_t lo = k - 1, hi = k + step;;) { /* batch lo was delivered or belongs to `epoch`, batch hi belongs to a later one */
		if (hi - lo <= 1)
			return hi;
		int64_t mid = lo + (hi - lo) / 2;
		if (stk__order_batch(&p->order, mid).epoch <= epoch)
			lo = mid;
		else
			hi = mid;
	}
}

/* Returns whether the run's position is the start of an epoch. */
static bool at_epoch_start(const struct stk_pipeline *p)
{
	return p->at.step < 0 ? stk__run_begins_epoch(p) : p->at.last;
}

enum stk_status stk_pipeline_skip_epoch(struct stk_pipeline *p, struct stk_error *err)
{
	if (STK_NEED(err, p))
		return STK_INVALID;
	enum stk_status s = stk__context_check(p->ctx, err);
	if (s)
		return s;
	if (stk__feed_is_calling(p))
		return stk__fail(err, STK_STATE, "a source can't end the epoch of the pipeline that calls it");
	if (p->parts.delivery->put_back.batch && !at_epoch_start(p)) {
		struct stk_batch *skipped = take_put_back(p);
		stk_batch_unref(&skipped);
	}
	bool first_is_next = p->parts.delivery->end_pending || at_epoch_start(p);
	p->parts.delivery->end_pending = false;
	p->parts.delivery->last = NULL;
	if (first_is_next)
		return STK_OK; /* the next batch already is the first of an epoch; it may be one that was put back */
	if (p->run.started)
		stk__drain(p);
	if (p->at.step < 0)
		p->at = (struct stk_position){.epoch = p->order.start_epoch}; /* the run was restored, and has delivered nothing */
	int64_t epoch = p->at.epoch;
	/* without a reader, the sources are set to the next epoch here; otherwise the next batch gives them its epoch */
	bool leads = p->program->reader < 0;
	if (!leads) {
		p->flight.next_deliver = next_epoch_batch(p, epoch);
		p->at.step = stk__order_batch(&p->order, p->flight.next_deliver - 1)
				     .step; /* a state that is saved now denotes the end of the skipped epoch */
	}
	p->flight.next_create = p->flight.next_open = p->flight.next_deliver;
	pthread_mutex_lock(&p->lock);
	stk__fetch_restart(p);
	pthread_mutex_unlock(&p->lock);
	stk__feed_begin_at(p, leads ? epoch + 1 : epoch, 0, leads);
	p->at.last = true;
	return STK_OK;
}
