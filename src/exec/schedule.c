/* SPDX-License-Identifier: Apache-2.0
 *
 * Picks the next unit of work, and handles its end. Workers take units of the oldest batch first, and open a new batch only if no open batch has ready work.
 * So a slow sample does not delay later batches, and few slots are in use. */
#include "exec/chain.h"
#include "exec/device.h"
#include "exec/engine.h"
#include "exec/fetch.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <stdio.h>
#include <string.h>

/* ---- taking units ---- */

/* Returns the number of samples in a unit: about 100 us of work by measured cost, at most STK_MAX_UNIT, and about this worker's share of the items. */
static int32_t unit_size(const struct stk_pipeline *p, const struct stk_record *r, int32_t level, int32_t chain)
{
	int64_t cost = atomic_load_explicit(&p->crew.cost_ns[level * p->program->max_chains + chain], memory_order_relaxed);
	int64_t n = cost > 0 ? 100000 / cost : 1, share = r->ready.count / p->crew.n + 1;
	n = n < share ? n : share;
	return n < 1 ? 1 : n > STK_MAX_UNIT ? STK_MAX_UNIT : (int32_t)n;
}

/* Moves samples of the unit's chain from the ready items to the unit. left: number of items that may still be looked at, so that items which are put back
 * are not looked at twice. */
static void take_samples(struct stk_record *r, struct stk_unit *u, int32_t *left)
{
	struct stk_pipeline *p = r->pipeline;
	int32_t capacity = stk__ready_room(p), batch = p->config.batch_size, limit = unit_size(p, r, r->level, u->chain);
	for (; *left > 0 && u->count < limit; --*left) {
		int32_t item = r->ready.items[r->ready.head], i = item - u->chain * batch;
		if (i < 0 || i >= batch)
			return;
		r->ready.head = (r->ready.head + 1) % capacity;
		r->ready.count--;
		struct stk_sample_state *s = &r->samples[i];
		bool failed = s->failed_by >= 0 && s->failed_by < u->chain;
		enum stk_fetch_turn turn = stk__fetch_order_next(s, u->chain, failed);
		if (turn == STK_FETCH_LATER)
			stk__ready_push(r, item);
		if (turn != STK_FETCH_TAKE)
			continue;
		u->failed[u->count] = failed;
		u->samples[u->count++] = i;
	}
}

static bool take_from(struct stk_record *r, struct stk_unit *u)
{
	struct stk_pipeline *p = r->pipeline;
	for (int32_t left = r->ready.count; left > 0;) {
		int32_t item = r->ready.items[r->ready.head], batch = p->config.batch_size;
		*u = (struct stk_unit){.record = r, .level = r->level, .chain = item / batch};
		if (item >= stk__gather_item(p, 0)) {
			r->ready.head = (r->ready.head + 1) % stk__ready_room(p);
			r->ready.count--;
			u->chain = item == stk__device_item(p) ? -2 : -1;
			u->node = item - stk__gather_item(p, 0);
			return true;
		}
		take_samples(r, u, &left);
		if (u->count)
			return true;
	}
	return false;
}

static bool take_unit(struct stk_pipeline *p, struct stk_unit *u)
{
	do {
		for (int64_t k = p->flight.next_deliver; k < p->flight.next_open; k++)
			if (take_from(stk__record(p, k), u))
				return true;
	} while (stk__open_next(p));
	return false;
}

/* ---- doing units ---- */

enum outcome { DONE, FAILED, WAITS };

static enum outcome do_sample(struct stk_pipeline *p, struct stk_exec_worker *w, const struct stk_unit *u, int32_t i)
{
	struct stk_record *r = u->record;
	struct stk_sample_state *s = &r->samples[i];
	const struct stk_chain *chain = &p->program->levels[u->level].chains[u->chain];
	if (chain->reads) {
		if (!stk__fetch_now(w, s, u->chain))
			return WAITS;
		if (stk__fetch_status(s, chain, &w->error))
			return FAILED;
	}
	if (w->error.code) /* cleared only if set, since clearing takes longer than the work on a small sample */
		w->error = (struct stk_error){0};
	return stk__chain_run(p, w, r, chain, u->level, u->chain, i, &w->error) ? FAILED : DONE;
}

/* Announces the next sample to the readers, so that they can prefetch its bytes into the caches. */
static void prefetch_next_sample(const struct stk_pipeline *p, const struct stk_sample_state *s)
{
	for (int32_t i = 0; i < p->program->n_readers; i++) {
		const struct stk_program_node *reader = &p->program->nodes[p->program->readers[i].node];
		if (reader->def->reader->prefetch)
			reader->def->reader->prefetch(reader->shared, stk__reader_place(p, i, &s->place).sample);
	}
}

static void do_chain(struct stk_pipeline *p, struct stk_exec_worker *w, int32_t worker, struct stk_unit *u)
{
	struct stk_record *r = u->record;
	const struct stk_chain *chain = &p->program->levels[u->level].chains[u->chain];
	int64_t begin = stk__clock_ns();
	int32_t done[STK_MAX_UNIT], n_done = 0;
	stk__range_begin(p->ctx->ranges, STK_SPAN_CHAIN, u->record_k);
	for (int32_t k = 0; k < u->count; k++) {
		int32_t i = u->samples[k];
		if (k + 1 < u->count)
			prefetch_next_sample(p, &r->samples[u->samples[k + 1]]);
		enum outcome o = u->failed[k] ? DONE : do_sample(p, w, u, i);
		if (stk__cancelled(&p->run.halt))
			break; /* the run was cancelled or is being abandoned */
		if (o == WAITS)
			continue;
		done[n_done++] = i;
		if (o == FAILED) {
			pthread_mutex_lock(&p->lock);
			stk__sample_fails(r, i, u->chain, &w->error);
			pthread_mutex_unlock(&p->lock);
		}
	}
	stk__stores_fence();
	pthread_mutex_lock(&p->lock); /* once per unit, since the work on a small sample may take less time than taking the lock */
	for (int32_t k = 0; k < n_done; k++)
		stk__sample_part_done(r, done[k]);
	stk__end_records(p);
	bool ahead = chain->reads && stk__fetch_runs_ahead(p);
	pthread_mutex_unlock(&p->lock);
	if (ahead)
		stk__fetch_ahead(p); /* bytes of these samples were released, so that more requests may be submitted */
	stk__range_end(p->ctx->ranges);
	int64_t end = stk__clock_ns();
	if (n_done) {
		_Atomic int64_t *cost = &p->crew.cost_ns[u->level * p->program->max_chains + u->chain];
		int64_t old = atomic_load_explicit(cost, memory_order_relaxed), now = (end - begin) / u->count;
		atomic_store_explicit(cost, old ? old + (now - old) / 8 : now, memory_order_relaxed);
	}
	STK_COUNT(p, busy_ns, end - begin);
	STK_COUNT(p, samples, n_done);
	STK_COUNT(p, units, 1);
	stk__trace_add(p->trace, worker,
		&(struct stk_trace_span){.kind = STK_SPAN_CHAIN,
			.batch = u->record_k,
			.first = u->samples[0],
			.count = u->count,
			.level = (int16_t)u->level,
			.stage = (int16_t)u->chain,
			.begin_ns = begin,
			.end_ns = end});
}

static void do_gather(struct stk_pipeline *p, struct stk_exec_worker *w, int32_t worker, struct stk_unit *u)
{
	struct stk_record *r = u->record;
	int64_t begin = stk__clock_ns();
	w->error = (struct stk_error){0};
	int32_t blamed;
	stk__range_begin(p->ctx->ranges, STK_SPAN_BATCH, u->record_k);
	enum stk_status s = stk__gather_run(p, w, r, u->node, &blamed, &w->error);
	stk__range_end(p->ctx->ranges);
	int64_t end = stk__clock_ns();
	STK_COUNT(p, busy_ns, end - begin);
	stk__trace_add(p->trace, worker,
		&(struct stk_trace_span){.kind = STK_SPAN_BATCH,
			.batch = u->record_k,
			.count = r->count,
			.level = (int16_t)u->level,
			.stage = (int16_t)u->node,
			.begin_ns = begin,
			.end_ns = end});
	pthread_mutex_lock(&p->lock);
	if (s) {
		char title[STK_MAX_TITLE];
		stk__node_title(p->program->nodes[u->node].node, title, sizeof title);
		stk__error_set_op(&w->error, title);
		w->error.sample = -1;
		if (blamed >= 0)
			stk__name_sample(p, &r->samples[blamed], p->program->leading_reader, &w->error);
		stk__record_error(r, &w->error, u->node);
	}
	stk__level_part_done(r);
	stk__end_records(p);
	pthread_mutex_unlock(&p->lock);
}

/* Submits the batch's jobs. After a success the batch belongs to the thread that waits for the GPU; after a failure it ends with the error. */
static void do_submit(struct stk_pipeline *p, struct stk_exec_worker *w, int32_t worker, const struct stk_unit *u)
{
	struct stk_record *r = u->record;
	int64_t begin = stk__clock_ns();
	w->error = (struct stk_error){0};
	stk__range_begin(p->ctx->ranges, STK_SPAN_SUBMIT, u->record_k);
	enum stk_status s = stk__device_submit(p, r, &w->error);
	stk__range_end(p->ctx->ranges);
	stk__trace_add(p->trace, worker,
		&(struct stk_trace_span){.kind = STK_SPAN_SUBMIT,
			.batch = u->record_k,
			.count = r->count,
			.level = (int16_t)u->level,
			.stage = -1,
			.begin_ns = begin,
			.end_ns = stk__clock_ns()});
	pthread_mutex_lock(&p->lock);
	if (s == STK_OK) {
		stk__device_submitted(p, r);
	} else {
		stk__record_error(r, &w->error, INT64_MAX);
		stk__level_over(r);
		stk__end_records(p);
	}
	pthread_mutex_unlock(&p->lock);
}

bool stk__exec_work(struct stk_pool_client *client, int32_t worker)
{
	struct stk_pipeline *p = (struct stk_pipeline *)client;
	struct stk_unit u;
	pthread_mutex_lock(&p->lock);
	int64_t open = p->flight.next_open;
	bool any = p->run.started && !p->run.stopping && !stk__cancelled(&p->run.halt) && take_unit(p, &u);
	bool ahead = stk__fetch_runs_ahead(p) && p->flight.next_open > open; /* an opened batch allows requests for later batches */
	bool more = false;                                                   /* true if ready work remains for another worker */
	for (int64_t k = p->flight.next_deliver; any && k < p->flight.next_open && !more; k++)
		more = stk__record(p, k)->ready.count > 0;
	if (any)
		u.record_k = u.record->k;
	pthread_mutex_unlock(&p->lock);
	if (ahead)
		stk__fetch_ahead(p);
	if (!any)
		return false;
	if (more)
		stk__pool_wake(p->pool);
	if (u.chain >= 0)
		do_chain(p, &p->crew.workers[worker], worker, &u);
	else if (u.chain == -1)
		do_gather(p, &p->crew.workers[worker], worker, &u);
	else
		do_submit(p, &p->crew.workers[worker], worker, &u);
	return true;
}
