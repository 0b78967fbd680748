/* SPDX-License-Identifier: Apache-2.0 */
#include "io/retry.h"

#include "base/clock.h"
#include "base/philox_hd.h"
#include "thread/thread.h"

#include <stdatomic.h>

enum { ASKS_NS = 200000000, CALLERS = 8 };

void stk__retry_init(struct stk_retry *t, void (*again)(void *user, struct stk_request *r), void *user)
{
	*t = (struct stk_retry){.retry = again, .user = user};
	stk__cond_init(&t->wake);
	pthread_mutex_init(&t->lock, NULL);
}

/* Calls t->retry for the parked requests that are admitted now, and for those that were cancelled, in the order of their deadlines. Once a caller's admission
 * has refused a request, asks it only about requests for which the caller waits (stk__request_awaited). Once CALLERS admissions have refused, does so for all
 * callers. Call with the lock held; it is released meanwhile. */
static void ask_parked(struct stk_retry *t)
{
	struct stk_request_queue waiting = {0};
	const struct stk_admission *refused[CALLERS];
	int callers = 0;
	for (struct stk_request *r; !t->ending && (r = stk__queue_pop(&t->parked));) {
		bool waits = callers == CALLERS;
		for (int i = 0; i < callers; i++)
			waits |= refused[i] == r->admission;
		waits &= !stk__request_awaited(r);
		if (!waits) {
			pthread_mutex_unlock(&t->lock);
			waits = !atomic_load(&r->cancelled) && !r->admission->admit(r->admission, r, r->retry.refused_bytes);
			if (!waits)
				t->retry(t->user, r);
			pthread_mutex_lock(&t->lock);
			if (waits && callers < CALLERS)
				refused[callers++] = r->admission;
		}
		if (waits)
			stk__queue_push(&waiting, r);
	}
	for (struct stk_request *r; (r = stk__queue_pop(&waiting));)
		stk__queue_push(&t->parked, r);
}

/* Waits until due_ns (INT64_MAX: without limit), or until another thread signals `wake`; at most ASKS_NS if requests are parked. Call with the lock held. */
static void wait(struct stk_retry *t, int64_t due_ns)
{
	const int64_t asks_ns = stk__clock_ns() + ASKS_NS;
	if (t->parked.root && asks_ns < due_ns)
		due_ns = asks_ns;
	const struct timespec until = {due_ns / 1000000000, due_ns % 1000000000};
	if (due_ns == INT64_MAX)
		pthread_cond_wait(&t->wake, &t->lock);
	else
		pthread_cond_timedwait(&t->wake, &t->lock, &until);
}

static void *run(void *arg)
{
	struct stk_retry *t = arg;
	pthread_mutex_lock(&t->lock);
	while (!t->ending) {
		struct stk_request *r = t->first;
		if (r && r->retry.due_ns <= stk__clock_ns()) {
			t->first = r->next;
			pthread_mutex_unlock(&t->lock);
			t->retry(t->user, r);
			pthread_mutex_lock(&t->lock);
			continue;
		}
		const uint64_t admission_changes = t->admission_changes;
		ask_parked(t);
		if (!t->ending && admission_changes == t->admission_changes)
			wait(t, t->first ? t->first->retry.due_ns : INT64_MAX);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Returns whether r may wait; starts the thread if needed. Call with the lock held. A thread that cancels r first sets r->cancelled and then searches for r in
 * `t`, so that either this function sees the flag or the search finds r. */
static bool may_wait(struct stk_retry *t, struct stk_request *r)
{
	bool waits = !t->ending && !atomic_load(&r->cancelled);
	if (waits && !t->started)
		waits = t->started = !stk__thread_start(&t->thread, "stoker-retry", run, t, NULL);
	return waits;
}

uint64_t stk__retry_admission_changes(struct stk_retry *t)
{
	pthread_mutex_lock(&t->lock);
	const uint64_t admission_changes = t->admission_changes;
	pthread_mutex_unlock(&t->lock);
	return admission_changes;
}

void stk__retry_admission_changed(struct stk_retry *t)
{
	pthread_mutex_lock(&t->lock);
	t->admission_changes++;
	if (t->parked.root)
		pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
}

bool stk__retry_park(struct stk_retry *t, struct stk_request *r, size_t bytes, uint64_t admission_changes)
{
	pthread_mutex_lock(&t->lock);
	const bool waits = may_wait(t, r);
	if (waits) {
		const bool first = !t->parked.root;
		r->retry.refused_bytes = bytes;
		stk__queue_push(&t->parked, r);
		if (first || admission_changes != t->admission_changes)
			pthread_cond_signal(&t->wake);
	}
	pthread_mutex_unlock(&t->lock);
	return waits;
}

bool stk__retry_at(struct stk_retry *t, struct stk_request *r, int64_t due_ns)
{
	pthread_mutex_lock(&t->lock);
	const bool waits = may_wait(t, r);
	if (waits) {
		struct stk_request **at = &t->first;
		while (*at && (*at)->retry.due_ns <= due_ns)
			at = &(*at)->next;
		r->retry.due_ns = due_ns;
		r->next = *at;
		*at = r;
		pthread_cond_signal(&t->wake);
	}
	pthread_mutex_unlock(&t->lock);
	return waits;
}

bool stk__retry_remove(struct stk_retry *t, struct stk_request *r)
{
	pthread_mutex_lock(&t->lock);
	struct stk_request **at = &t->first;
	while (*at && *at != r)
		at = &(*at)->next;
	bool found = *at;
	if (found)
		*at = r->next;
	else
		found = t->parked.root && stk__queue_remove(&t->parked, r);
	pthread_mutex_unlock(&t->lock);
	return found;
}

struct stk_request *stk__retry_end(struct stk_retry *t)
{
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	if (t->started)
		stk__thread_join(t->thread);
	pthread_mutex_lock(&t->lock);
	struct stk_request *first = t->first;
	t->first = NULL;
	for (struct stk_request *r; (r = stk__queue_pop(&t->parked)); first = r)
		r->next = first;
	pthread_mutex_unlock(&t->lock);
	return first;
}

void stk__retry_destroy(struct stk_retry *t)
{
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
}

int64_t stk__retry_delay(int64_t base_ns, int64_t most_ns, int32_t tries, uint64_t salt)
{
	int64_t window = base_ns;
	for (int32_t i = 0; i < tries && window < most_ns; i++)
		window *= 2;
	window = window < most_ns ? window : most_ns;
	return window > 0 ? (int64_t)(stk__mix64_hd(salt) % (uint64_t)window) : 0;
}
