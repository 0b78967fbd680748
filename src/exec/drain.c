/* SPDX-License-Identifier: Apache-2.0
 *
 * Abandons a run: starts no new work, waits for the work under way, and discards its results. */
#include "exec/device.h"
#include "exec/engine.h"
#include "exec/feed.h"
#include "exec/fetch.h"

void stk__drain(struct stk_pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	p->run.stopping = true;
	atomic_store(&p->run.halt.requested, true);
	pthread_mutex_unlock(&p->lock);
	stk__feed_stop(p);
	if (p->callbacks->crew)
		stk__pool_leave(p->pool, &p->client);
	stk__fetch_end(p);
	stk__surveyed_end(p); /* only after all reads have ended, since reads copy bytes that the search of tars has read */
	pthread_mutex_lock(&p->lock);
	while (p->parts.device && stk__device_has_work(p->parts.device))
		pthread_cond_wait(&p->delivered, &p->lock);
	pthread_mutex_unlock(&p->lock);
	for (int32_t i = 0; i < p->flight.n; i++)
		stk__record_return(&p->flight.records[i]); /* no thread uses these records any more */
	pthread_mutex_lock(&p->lock);
	for (int32_t i = 0; i < p->flight.n; i++)
		stk__record_reset(&p->flight.records[i]);
	stk__open_stop(p);
	p->flight.begun = -1;
	p->flight.asked = false;
	stk__fetch_restart(p);
	p->run.stopping = false;
	atomic_store(&p->run.halt.requested, atomic_load(&p->run.cancelled));
	p->run.started = false;
	pthread_mutex_unlock(&p->lock);
}
