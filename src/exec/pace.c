/* SPDX-License-Identifier: Apache-2.0
 * How many workers take part. A batch that all of them make at once costs more of the cores than one that few make, since they fight for memory: so in a
 * training loop no more of them work than keep the batches ahead ready. All of them do whenever the consumer has to wait.
 *
 * What is looked at is whether the batches behind the one that is taken have gone through the workers by then. If one has not, one more worker takes part;
 * if all have for CALM deliveries in a row, an eighth fewer do. The batches ahead make up for the tries that were too few. */
#include "exec/context.h"
#include "exec/exec.h"

enum { CALM = 8 };

static bool through_workers(const struct stk_record *r)
{
	return r->state >= STK_BATCH_ON_GPU;
}

static void set(struct stk_crew *c, int32_t wanted)
{
	c->calm = 0;
	c->wanted = wanted < 1 ? 1 : wanted < c->n ? wanted : c->n;
}

void stk__pace_waits(struct stk_pipeline *p)
{
	struct stk_crew *c = &p->crew;
	if (stk__record(p, p->flight.next_deliver)->state == STK_BATCH_FINISHED)
		return;
	bool grows = c->wanted < c->n;
	set(c, c->n);
	if (grows) /* the others may be at long units, and would tell nobody before they end */
		stk__pool_wake(p->ctx->pool);
}

void stk__pace_delivers(struct stk_pipeline *p)
{
	struct stk_crew *c = &p->crew;
	int64_t behind = p->flight.next_deliver + 1;
	if (behind == p->flight.next_open)
		return; /* nothing tells how much time there was */
	for (int64_t k = behind; k < p->flight.next_open; k++)
		if (!through_workers(stk__record(p, k))) {
			set(c, c->wanted + 1);
			return;
		}
	if (++c->calm == CALM)
		set(c, c->wanted - (c->wanted + 7) / 8);
}

/* Whoever is turned away sleeps. No unit is left for that: a worker that leaves looks for one itself, as do all after a wake. */
bool stk__pace_enter(struct stk_pipeline *p)
{
	if (p->crew.busy >= p->crew.wanted)
		return false;
	p->crew.busy++;
	return true;
}

void stk__pace_leave(struct stk_pipeline *p)
{
	p->crew.busy--;
}

void stk__pace_wake(struct stk_pipeline *p)
{
	struct stk_crew *c = &p->crew;
	if (c->wanted == c->n)
		stk__pool_wake(p->ctx->pool);
	else if (c->busy < c->wanted)
		stk__pool_wake_one(p->ctx->pool); /* it wakes the next */
}
