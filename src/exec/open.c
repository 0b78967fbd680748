/* SPDX-License-Identifier: Apache-2.0
 * Opening batches: how many are under way, and a slot for each. */
#include "exec/device.h"
#include "exec/engine.h"
#include "exec/fetch.h"
#include "exec/resident.h"

/* `depth` batches are on their way or wait for the consumer: `prefetch`, and on a GPU as many more as its consumer has had to wait for; one more while
 * the oldest of them is not done, since it may be held up by a straggler, if that takes no further slot or if it is reads that hold it up. With the one
 * that the consumer holds, that is prefetch + 1 slots in steady state. */
static bool may_open(struct stk_pipeline *p)
{
	int64_t open = p->next_open - p->next_deliver;
	bool behind = open > 0 && stk__record(p, p->next_deliver)->state < STK_BATCH_ENDING;
	if (p->stopping || open > p->depth)
		return false;
	int32_t most = p->depth + (p->next_slot ? 1 : 0); /* which is out already */
	return open < p->depth || (behind && (stk__fetch_counts(p).in_flight > 0 || stk__ring_at_most(p->ring, most)));
}

/* Lays out a slot for the next batch, which takes memory: without the lock, and one thread at a time. False: there is none. With the lock, which it gives
 * up in between. */
static bool have_slot(struct stk_pipeline *p)
{
	if (p->next_slot || p->no_memory)
		return true;
	if (p->laying) { /* who does it opens the batch, and wakes this thread */
		p->came_by = true;
		return false;
	}
	enum stk_ring_lack lack;
	p->laying = true;
	p->no_slot = false;
	pthread_mutex_unlock(&p->lock);
	stk__assert_unlocked(p);
	struct stk_slot *slot = stk__ring_take(p->ring, &lack);
	pthread_mutex_lock(&p->lock);
	p->laying = false;
	p->next_slot = slot;
	p->no_memory = lack == STK_RING_NO_MEMORY;
	p->no_slot = !slot && !p->no_memory;
	if (p->came_by && !p->no_slot)
		stk__pool_wake_one(p->ctx->pool);
	p->came_by = false;
	return !p->no_slot;
}

bool stk__open_next(struct stk_pipeline *p)
{
	if (!may_open(p) || !have_slot(p) || !may_open(p))
		return false;
	if (!stk__create_records(p, p->next_open + 1))
		return false;
	struct stk_record *r = stk__record(p, p->next_open);
	if (p->device && !r->device && !(r->device = stk__device_batch_take(p, r)))
		return false;
	bool no_memory = p->no_memory;
	r->slot = p->next_slot;
	p->next_slot = NULL;
	p->no_memory = false;
	p->next_open++;
	STK_COUNT(p, batches_opened, 1);
	if (p->resident && !no_memory) { /* on the consumer's thread, and nobody else's */
		pthread_mutex_unlock(&p->lock);
		stk__resident_submit(p, r);
		pthread_mutex_lock(&p->lock);
	}
	stk__record_open(r, no_memory);
	return true;
}
