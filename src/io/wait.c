/* SPDX-License-Identifier: Apache-2.0 */
#include "io/wait.h"

#include "base/memory.h"

#include <stddef.h>
#include <time.h>

void stk__requests_init(struct stk_requests *q, struct stk_io *io)
{
	*q = (struct stk_requests){.io = io};
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->ended_cond, NULL);
}

void stk__requests_destroy(struct stk_requests *q)
{
	pthread_cond_destroy(&q->ended_cond);
	pthread_mutex_destroy(&q->lock);
}

static void request_ended(struct stk_request *r)
{
	struct stk_requests *q = r->user;
	pthread_mutex_lock(&q->lock);
	r->next = q->ended;
	q->ended = r;
	pthread_cond_signal(&q->ended_cond);
	pthread_mutex_unlock(&q->lock);
}

void stk__requests_submit(struct stk_requests *q, struct stk_request *r)
{
	r->done = request_ended;
	r->user = q;
	stk__io_submit(q->io, r);
}

/* Waits for a signal, but at most 50 ms if `access` has a function that reports an interrupt, and then calls that function. Call with the lock held, which
 * is released meanwhile. Returns false if the user has interrupted. */
static bool wait_some(struct stk_requests *q, const struct stk_access *access)
{
	enum { SLICE_NS = 50000000 };
	struct timespec deadline;
	if (!access || !access->interrupted) {
		pthread_cond_wait(&q->ended_cond, &q->lock);
		return true;
	}
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_nsec += SLICE_NS;
	deadline.tv_sec += deadline.tv_nsec / 1000000000;
	deadline.tv_nsec %= 1000000000;
	if (!pthread_cond_timedwait(&q->ended_cond, &q->lock, &deadline))
		return true;
	pthread_mutex_unlock(&q->lock);
	const bool on = !access->interrupted(access->user);
	pthread_mutex_lock(&q->lock);
	return on;
}

/* Removes the newest request that has ended from the list, and returns it. Call with the lock held. */
static struct stk_request *pop_ended(struct stk_requests *q)
{
	struct stk_request *r = q->ended;
	if (r)
		q->ended = r->next;
	return r;
}

struct stk_request *stk__requests_any(struct stk_requests *q, const struct stk_access *access)
{
	bool on = true;
	pthread_mutex_lock(&q->lock);
	while (!q->ended && !q->woken && on)
		on = wait_some(q, access);
	struct stk_request *r = pop_ended(q);
	if (!r)
		q->woken = false;
	pthread_mutex_unlock(&q->lock);
	return r;
}

struct stk_request *stk__requests_ended(struct stk_requests *q)
{
	pthread_mutex_lock(&q->lock);
	struct stk_request *r = pop_ended(q);
	pthread_mutex_unlock(&q->lock);
	return r;
}

void stk__requests_wake(struct stk_requests *q)
{
	pthread_mutex_lock(&q->lock);
	q->woken = true;
	pthread_cond_signal(&q->ended_cond);
	pthread_mutex_unlock(&q->lock);
}

void stk__io_wait(struct stk_io *io, struct stk_request *r, const struct stk_access *access)
{
	struct stk_requests q;
	stk__requests_init(&q, io);
	stk__requests_submit(&q, r);
	if (!stk__requests_any(&q, access)) {
		stk__io_cancel(io, r);
		stk__requests_any(&q, NULL);
	}
	stk__requests_destroy(&q);
}

/* ---- in order ---- */

bool stk__ahead_init(struct stk_read_ahead *a, struct stk_io *io, const struct stk_access *access, int capacity)
{
	*a = (struct stk_read_ahead){.access = access, .capacity = capacity, .slots = stk__calloc((size_t)capacity, sizeof *a->slots)};
	stk__requests_init(&a->requests, io);
	return a->slots;
}

void stk__ahead_destroy(struct stk_read_ahead *a)
{
	stk__ahead_drop_all(a);
	stk__requests_destroy(&a->requests);
	stk__free(a->slots);
}

struct stk_ahead *stk__ahead_at(const struct stk_read_ahead *a, int k)
{
	return &a->slots[(a->first + k) % a->capacity];
}

void stk__ahead_submit(struct stk_read_ahead *a, const struct stk_request *like)
{
	struct stk_ahead *s = stk__ahead_at(a, a->count++);
	*s = (struct stk_ahead){.request = *like};
	s->request.object = &s->object;
	stk__requests_submit(&a->requests, &s->request);
}

static bool wait_ended(struct stk_read_ahead *a, struct stk_ahead *s, const struct stk_access *access)
{
	while (!s->ended) {
		struct stk_request *r = stk__requests_any(&a->requests, access);
		if (!r)
			return false;
		((struct stk_ahead *)((char *)r - offsetof(struct stk_ahead, request)))->ended = true;
	}
	return true;
}

bool stk__ahead_wait(struct stk_read_ahead *a, struct stk_ahead *s)
{
	return wait_ended(a, s, a->access);
}

void stk__ahead_drop(struct stk_read_ahead *a)
{
	struct stk_ahead *s = stk__ahead_at(a, 0);
	if (!stk__ahead_wait(a, s)) {
		stk__io_cancel(a->requests.io, &s->request);
		wait_ended(a, s, NULL);
	}
	stk__buffer_release(s->request.buffer);
	stk__free(s->request.error);
	a->first = (a->first + 1) % a->capacity;
	a->count--;
}

void stk__ahead_drop_all(struct stk_read_ahead *a)
{
	for (int k = 0; k < a->count; k++)
		stk__io_cancel(a->requests.io, &stk__ahead_at(a, k)->request);
	while (a->count)
		stk__ahead_drop(a);
}
