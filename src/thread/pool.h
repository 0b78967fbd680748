/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of worker threads. Clients (pipelines) register a function that does one unit of work. Workers ask the clients in turn, and sleep when no client
 * has work. Code that makes work available calls stk__pool_wake. */
#ifndef STK_THREAD_POOL_H
#define STK_THREAD_POOL_H

#include "stoker/status.h"
#include "thread/thread.h"

#include <stdbool.h>

struct stk_pool;

struct stk_pool_client {
	/* Does at most one unit of work, of 50 to 200 us. Returns false if there was none. Several workers may call it at the same time. worker: number of
	 * the calling worker. */
	bool (*work)(struct stk_pool_client *client, int32_t worker);
	struct stk_pool_client *next; /* from here on: private to the pool */
	int32_t busy;
	bool leaving;
};

STK_MUST_USE enum stk_status stk__pool_create(int32_t threads, struct stk_pool **out, struct stk_error *err);
/* Ends the workers after their current unit, and waits for them. All clients must have left. */
void stk__pool_destroy(struct stk_pool *pool);
int32_t stk__pool_threads(const struct stk_pool *pool);
/* Pins the first `most` workers to these cores. */
void stk__pool_pin(struct stk_pool *pool, const struct stk_device_cores *cores, int32_t most);
/* Returns the number of workers that are pinned, and sets *cores to the cores to which they are pinned; 0 and no cores before stk__pool_pin. */
int32_t stk__pool_pinned(struct stk_pool *pool, struct stk_device_cores *cores);

void stk__pool_join(struct stk_pool *pool, struct stk_pool_client *client);
/* Removes a client. Returns when no worker is inside client->work, and none will enter it. */
void stk__pool_leave(struct stk_pool *pool, struct stk_pool_client *client);
/* Starts to remove a client: from now on no worker enters client->work. Returns false if a worker is still inside after `ms` milliseconds. stk__pool_leave
 * completes the removal. */
bool stk__pool_leave_within(struct stk_pool *pool, struct stk_pool_client *client, int64_t ms);

/* Returns whether the calling thread is one of the pool's workers. */
bool stk__pool_is_worker(const struct stk_pool *pool);

/* Returns the percentage of workers that were awake on average lately (duty.h). Any thread. */
int32_t stk__pool_load(const struct stk_pool *pool);

/* Wakes sleeping workers because there is work. Any thread; cheap if no worker sleeps. */
void stk__pool_wake(struct stk_pool *pool);
/* Wakes one worker. That worker wakes others if there is work for them, so that the consumer's thread pays for only one wake. */
void stk__pool_wake_one(struct stk_pool *pool);

#endif
