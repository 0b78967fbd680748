/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of workers as an object. Clients (pipelines) register a function that does one unit of work; workers ask them in turn and sleep when
 * nobody has any. Whoever makes work available calls stk__pool_wake. */
#ifndef STK_THREAD_POOL_H
#define STK_THREAD_POOL_H

#include "stoker/status.h"

#include <sched.h>
#include <stdbool.h>

struct stk_pool;

struct stk_pool_client {
	/* Does at most one unit of 50 to 200 us; false: there was nothing to do. Several workers at once. */
	bool (*work)(struct stk_pool_client *client, int32_t worker);
	struct stk_pool_client *next; /* the pool's own from here on */
	int32_t busy;
	bool leaving;
};

STK_MUST_USE enum stk_status stk__pool_create(int32_t threads, struct stk_pool **out, struct stk_error *err);
/* Ends the workers after their current unit and waits for them. All clients have left. */
void stk__pool_destroy(struct stk_pool *pool);
int32_t stk__pool_threads(const struct stk_pool *pool);
/* Lets the first `most` workers run on these cores alone; returns how many do so. */
int32_t stk__pool_bind(struct stk_pool *pool, const cpu_set_t *cpus, int32_t most);

void stk__pool_join(struct stk_pool *pool, struct stk_pool_client *client);
/* Returns when no worker is inside client->work, and none will be. */
void stk__pool_leave(struct stk_pool *pool, struct stk_pool_client *client);
/* Begins to leave: none will be from here on. False: after `ms`, one still is. */
bool stk__pool_leave_within(struct stk_pool *pool, struct stk_pool_client *client, int64_t ms);

/* Whether the calling thread is one of its workers. */
bool stk__pool_is_me(const struct stk_pool *pool);

/* Of a hundred workers, how many were awake on average lately (duty.h). Any thread. */
int32_t stk__pool_load(const struct stk_pool *pool);

/* There is work: wakes sleeping workers. Any thread; cheap when none sleeps. */
void stk__pool_wake(struct stk_pool *pool);
/* Wakes one, who wakes the others if what it finds is work for them too: a consumer's own thread pays for one wake, not for all. */
void stk__pool_wake_one(struct stk_pool *pool);

#endif
