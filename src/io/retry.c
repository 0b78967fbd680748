/* SPDX-License-Identifier: Apache-2.0 */
#include "io/retry.h"

#include "base/clock.h"
#include "base/philox_hd.h"
#include "thread/thread.h"

#include <stdatomic.h>

void stk__retry_init(struct stk_retry *t, void (*again)(void *user, struct stk_request *r), void *user)
{
	pthread_condattr_t monotonic;
	*t = (struct stk_retry){.again = again, .user = user};
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&t->lock, NULL);
}

static void *run(void *arg)
{
	struct stk_retry *t = arg;
	pthread_mutex_lock(&t->lock);
	while (!t->ending) {
		struct stk_request *r = t->first;
		if (!r) {
			pthread_cond_wait(&t->wake, &t->lock);
		} else if (r->due_ns > stk__clock_ns()) {
			struct timespec until = {r->due_ns / 1000000000, r->due_ns % 1000000000};
			pthread_cond_timedwait(&t->wake, &t->lock, &until);
		} else {
			t->first = r->next;
			pthread_mutex_unlock(&t->lock);
			t->again(t->user, r);
			pthread_mutex_lock(&t->lock);
		}
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

bool stk__retry_at(struct stk_retry *t, struct stk_request *r, int64_t due_ns)
{
	pthread_mutex_lock(&t->lock);
	/* A canceller sets the flag before it looks for r in the list: either it finds r there, or the flag is seen here. */
	bool waits = !t->ending && !atomic_load(&r->cancelled);
	if (waits && !t->started)
		waits = t->started = !stk__thread_start(&t->thread, "stoker-retry", run, t, NULL);
	if (waits) {
		struct stk_request **at = &t->first;
		while (*at && (*at)->due_ns <= due_ns)
			at = &(*at)->next;
		r->due_ns = due_ns;
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
	pthread_mutex_unlock(&t->lock);
	return found;
}

struct stk_request *stk__retry_end(struct stk_retry *t)
{
	pthread_mutex_lock(&t->lock);
	struct stk_request *first = t->first;
	t->first = NULL;
	t->ending = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	if (t->started)
		stk__thread_join(t->thread);
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
