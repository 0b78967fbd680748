/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens batches: decides how many are under way, and prepares a slot for each. */
#include "exec/device.h"
#include "exec/engine.h"
#include "exec/fetch.h"

struct stk_opening {
	struct stk_slot *slot;   /* slot that is prepared for the next batch to be opened; NULL: not prepared yet */
	bool laying, came_by;    /* laying: a thread is preparing a slot; came_by: another thread has tried to prepare one meanwhile */
	bool no_slot, no_memory; /* the last try found no free slot, or no memory for one */
};

/* Returns whether one more batch may be opened than the `depth` that are open, so that a slow sample in the oldest one does not keep the workers idle. If the
 * consumer holds a batch, one more takes a further slot. It may take that only while reads are under way, since the oldest batch may wait for one of them. */
static bool may_exceed_depth(struct stk_pipeline *p)
{
	const int32_t most = p->flight.depth + (p->parts.opening->slot ? 1 : 0); /* the prepared slot is among those in use */
	return stk__record(p, p->flight.next_deliver)->state < STK_BATCH_ENDING &&
	       (stk__fetch_counts(p).in_flight > 0 || stk__ring_out_at_most(p->ring, most));
}

/* Returns whether the epoch of the next batch has begun, or may begin. */
static bool may_enter_epoch(struct stk_pipeline *p)
{
	if (p->flight.asked && p->flight.next_open == p->flight.next_deliver)
		return true;
	return stk__create_records(p, p->flight.next_open + 1) && stk__record(p, p->flight.next_open)->at.epoch == p->flight.begun;
}

/* Returns whether the next batch may be opened once there is a slot for it. Call with the lock held. */
static bool may_open_next(struct stk_pipeline *p)
{
	const int64_t open = p->flight.next_open - p->flight.next_deliver;

	/* stk__drain waits for the work under way and discards its results, so new work would be in vain. */
	if (p->run.stopping)
		return false;

	/* Open batches take memory. `depth` of them (`prefetch`, on a GPU also more: stk__device_adapt_batches) keep the workers busy. With the consumer's batch,
	 * they take depth + 1 slots. */
	if (open > p->flight.depth || (open == p->flight.depth && !may_exceed_depth(p)))
		return false;

	/* A user of epoch_by_epoch may change a function between two epochs, and the function must not run before that. So a new epoch begins only when the
	 * consumer has all batches of the last one and asks for the next batch. Without a reader, the user's sources decide when they return a batch. */
	return !p->config.epoch_by_epoch || p->program->reader < 0 || may_enter_epoch(p);
}

/* Prepares a slot for the next batch. Returns false if no slot is free, or if another thread is preparing one. If memory is short, sets o->no_memory and
 * returns true. Call with the lock held; it is released while memory is allocated. */
static bool have_slot(struct stk_pipeline *p)
{
	struct stk_opening *o = p->parts.opening;
	if (o->slot || o->no_memory)
		return true;
	if (o->laying) { /* came_by asks the thread that is preparing the slot to wake a worker afterwards */
		o->came_by = true;
		return false;
	}
	enum stk_ring_lack lack;
	o->laying = true;
	o->no_slot = false;
	pthread_mutex_unlock(&p->lock);
	stk__assert_unlocked(p);
	struct stk_slot *slot = stk__ring_take(p->ring, &lack);
	pthread_mutex_lock(&p->lock);
	o->laying = false;
	o->slot = slot;
	o->no_memory = lack == STK_RING_NO_MEMORY;
	o->no_slot = !slot && !o->no_memory;
	if (o->came_by && !o->no_slot)
		stk__pool_wake_one(p->pool);
	o->came_by = false;
	return !o->no_slot;
}

bool stk__open_next(struct stk_pipeline *p)
{
	struct stk_opening *o = p->parts.opening;
	if (!may_open_next(p) || !have_slot(p) || !may_open_next(p)) /* have_slot releases the lock, so the answer may have changed */
		return false;
	if (!stk__create_records(p, p->flight.next_open + 1))
		return false;
	struct stk_record *r = stk__record(p, p->flight.next_open);
	if (p->parts.device && !r->device && !(r->device = stk__device_batch_take(p, r)))
		return false;
	bool no_memory = o->no_memory;
	r->slot = o->slot;
	o->slot = NULL;
	o->no_memory = false;
	p->flight.next_open++;
	p->flight.begun = r->at.epoch;
	STK_COUNT(p, batches_opened, 1);
	stk__record_open(r, no_memory);
	return true;
}

bool stk__open_waits_for_slot(const struct stk_pipeline *p)
{
	return p->parts.opening->no_slot;
}

void stk__open_stop(struct stk_pipeline *p)
{
	struct stk_opening *o = p->parts.opening;
	if (o->slot)
		stk__slot_return(o->slot);
	*o = (struct stk_opening){0};
}

enum stk_status stk__open_create(struct stk_pipeline *p, struct stk_error *err)
{
	p->parts.opening = stk__calloc(1, sizeof *p->parts.opening);
	return p->parts.opening ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline");
}

void stk__open_destroy(struct stk_pipeline *p)
{
	stk__free(p->parts.opening);
	p->parts.opening = NULL;
}
