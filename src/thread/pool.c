/* SPDX-License-Identifier: Apache-2.0 */
#include "thread/pool.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "thread/duty.h"
#include "thread/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

struct pool_thread {
	struct stk_pool *pool;
	int32_t index;
	pthread_t handle;
};

struct stk_pool {
	pthread_mutex_t lock;
	pthread_cond_t work_cond, resting_cond,
		removal_cond;            /* conditions for threads on duty, for resting threads, and for a caller that removes a client */
	struct stk_pool_client *clients; /* list of clients, in the order in which they joined */
	_Atomic uint64_t wakes; /* number of calls of stk__pool_wake, so that a wake between a worker's search and its sleep is not lost */
	_Atomic int32_t sleeping_threads; /* number of threads that wait for `work_cond`; resting threads are not counted */
	struct stk_duty duty;
	struct stk_device_cores pinned; /* cores to which the first workers are pinned */
	int32_t n_pinned;               /* number of workers that are pinned to them */
	bool stop;
	int32_t n_threads;
	struct pool_thread threads[];
};

/* Asks every client for one unit of work, and returns whether any client had one. While a client is busy, it stays in the list. */
static bool ask_clients(struct stk_pool *pool, int32_t worker)
{
	bool worked = false;
	pthread_mutex_lock(&pool->lock);
	for (struct stk_pool_client *c = pool->clients; c && !pool->stop;) {
		if (!c->leaving) {
			c->busy++;
			pthread_mutex_unlock(&pool->lock);
			worked |= c->work(c, worker);
			pthread_mutex_lock(&pool->lock);
			if (--c->busy == 0 && c->leaving)
				pthread_cond_broadcast(&pool->removal_cond);
		}
		c = c->next;
	}
	pthread_mutex_unlock(&pool->lock);
	return worked;
}

bool stk__pool_is_worker(const struct stk_pool *pool)
{
	for (int32_t i = 0; i < pool->n_threads; i++)
		if (pthread_equal(pool->threads[i].handle, pthread_self()))
			return true;
	return false;
}

int32_t stk__pool_load(const struct stk_pool *pool)
{
	return stk__duty_load(&pool->duty, stk__clock_ns());
}

static bool must_rest(const struct pool_thread *t)
{
	return t->index >= atomic_load(&t->pool->duty.on);
}

/* Waits until there may be work or, if the worker is not on duty (duty.h), until it is on duty again. seen: value of `wakes` before the worker searched for
 * work. Returns false if the pool ends. */
static bool wait_for_work(const struct pool_thread *t, uint64_t seen)
{
	struct stk_pool *pool = t->pool;
	pthread_mutex_lock(&pool->lock);
	stk__duty_sleeps(&pool->duty, stk__clock_ns());
	if (must_rest(t)) {
		while (!pool->stop && must_rest(t))
			pthread_cond_wait(&pool->resting_cond, &pool->lock);
	} else {
		atomic_fetch_add(&pool->sleeping_threads, 1);
		while (!pool->stop && atomic_load(&pool->wakes) == seen)
			pthread_cond_wait(&pool->work_cond, &pool->lock);
		atomic_fetch_sub(&pool->sleeping_threads, 1);
	}
	stk__duty_wakes(&pool->duty, stk__clock_ns());
	bool on = !pool->stop;
	pthread_mutex_unlock(&pool->lock);
	return on;
}

static void call_others(struct stk_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	stk__duty_raise(&pool->duty, stk__clock_ns());
	pthread_cond_broadcast(&pool->resting_cond);
	pthread_mutex_unlock(&pool->lock);
}

static void *run(void *arg)
{
	const struct pool_thread *t = arg;
	for (bool on = true; on;) {
		uint64_t seen = atomic_load(&t->pool->wakes);
		bool worked = ask_clients(t->pool, t->index);
		if (worked && stk__duty_full(&t->pool->duty) && stk__duty_busy(&t->pool->duty, stk__clock_ns()))
			call_others(t->pool);
		if (worked && !must_rest(t))
			continue;
		if (worked)
			stk__pool_wake_one(t->pool); /* the unit of work may have created more work, for which no other worker was woken */
		on = wait_for_work(t, seen);
	}
	return NULL;
}

static void stop_threads(struct stk_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work_cond);
	pthread_cond_broadcast(&pool->resting_cond);
	pthread_mutex_unlock(&pool->lock);
	for (int32_t i = 0; i < pool->n_threads; i++)
		stk__thread_join(pool->threads[i].handle);
}

enum stk_status stk__pool_create(int32_t threads, struct stk_pool **out, struct stk_error *err)
{
	struct stk_pool *pool = stk__calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->threads);
	*out = NULL;
	if (!pool)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pool of %d threads", threads);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work_cond, NULL);
	pthread_cond_init(&pool->resting_cond, NULL);
	pthread_cond_init(&pool->removal_cond, NULL);
	stk__duty_init(&pool->duty, threads, stk__clock_ns());
	for (; pool->n_threads < threads; pool->n_threads++) {
		struct pool_thread *t = &pool->threads[pool->n_threads];
		char name[24];
		snprintf(name, sizeof name, "stoker-%d", pool->n_threads);
		t->pool = pool;
		t->index = pool->n_threads;
		enum stk_status s = stk__thread_start(&t->handle, name, run, t, err);
		if (s) {
			stk__pool_destroy(pool);
			return s;
		}
	}
	*out = pool;
	return STK_OK;
}

void stk__pool_destroy(struct stk_pool *pool)
{
	if (!pool)
		return;
	stop_threads(pool);
	pthread_cond_destroy(&pool->removal_cond);
	pthread_cond_destroy(&pool->resting_cond);
	pthread_cond_destroy(&pool->work_cond);
	pthread_mutex_destroy(&pool->lock);
	stk__free(pool);
}

int32_t stk__pool_threads(const struct stk_pool *pool)
{
	return pool->n_threads;
}

void stk__pool_pin(struct stk_pool *pool, const struct stk_device_cores *cores, int32_t most)
{
	pthread_mutex_lock(&pool->lock);
	pool->pinned = *cores;
	pool->n_pinned = 0;
	for (int32_t i = 0; i < pool->n_threads && i < most; i++)
		pool->n_pinned += pthread_setaffinity_np(pool->threads[i].handle, sizeof cores->cpus, &cores->cpus) == 0;
	pthread_mutex_unlock(&pool->lock);
}

int32_t stk__pool_pinned(struct stk_pool *pool, struct stk_device_cores *cores)
{
	pthread_mutex_lock(&pool->lock);
	*cores = pool->pinned;
	const int32_t n = pool->n_pinned;
	pthread_mutex_unlock(&pool->lock);
	return n;
}

void stk__pool_join(struct stk_pool *pool, struct stk_pool_client *client)
{
	pthread_mutex_lock(&pool->lock);
	client->next = NULL;
	client->busy = 0;
	client->leaving = false;
	struct stk_pool_client **p = &pool->clients;
	while (*p)
		p = &(*p)->next;
	*p = client;
	pthread_mutex_unlock(&pool->lock);
	stk__pool_wake(pool);
}

void stk__pool_leave(struct stk_pool *pool, struct stk_pool_client *client)
{
	pthread_mutex_lock(&pool->lock);
	client->leaving = true;
	while (client->busy)
		pthread_cond_wait(&pool->removal_cond, &pool->lock);
	struct stk_pool_client **p = &pool->clients;
	while (*p != client)
		p = &(*p)->next;
	*p = client->next;
	pthread_mutex_unlock(&pool->lock);
}

bool stk__pool_leave_within(struct stk_pool *pool, struct stk_pool_client *client, int64_t ms)
{
	enum { LONGEST_MS = 1 << 30 }; /* twelve days; a caller with a later limit calls again */
	struct timespec deadline;
	clock_gettime(CLOCK_REALTIME, &deadline);
	ms = ms < LONGEST_MS ? ms : LONGEST_MS;
	const int64_t ns = deadline.tv_nsec + ms % 1000 * 1000000;
	deadline.tv_sec += ms / 1000 + ns / 1000000000;
	deadline.tv_nsec = ns % 1000000000;
	pthread_mutex_lock(&pool->lock);
	client->leaving = true;
	for (int late = 0; client->busy && !late;)
		late = pthread_cond_timedwait(&pool->removal_cond, &pool->lock, &deadline);
	const bool finished = !client->busy;
	pthread_mutex_unlock(&pool->lock);
	return finished;
}

/* Counts a wake, and returns whether a worker sleeps. A worker that is about to sleep holds the lock from its look at the count to its wait. So once this
 * function has taken and released the lock, that worker either has seen the new count, or waits for the signal that the caller sends next. */
static bool count_wake(struct stk_pool *pool)
{
	atomic_fetch_add(&pool->wakes, 1);
	if (atomic_load(&pool->sleeping_threads) == 0)
		return false;
	pthread_mutex_lock(&pool->lock);
	pthread_mutex_unlock(&pool->lock);
	return true;
}

void stk__pool_wake(struct stk_pool *pool)
{
	if (count_wake(pool))
		pthread_cond_broadcast(&pool->work_cond);
}

void stk__pool_wake_one(struct stk_pool *pool)
{
	if (count_wake(pool))
		pthread_cond_signal(&pool->work_cond);
}
