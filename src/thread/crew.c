/* SPDX-License-Identifier: Apache-2.0 */
#include "thread/crew.h"

#include "base/error.h"
#include "thread/thread.h"

#include <stdatomic.h>
#include <time.h>

enum { SLICE_NS = 100000000 };

struct work {
	const struct stk_crew *crew;
	pthread_mutex_t lock; /* guards all fields below */
	pthread_cond_t change;
	int32_t next, done, bad; /* next: number of started items; done: number of items that have ended; bad: index of the first item
				  * that failed, or crew->count */
	bool gave_up;
	int running; /* number of threads that have not ended, including the caller if it runs items */
	struct stk_error error;
};

static void *run(void *user)
{
	struct work *w = user;
	pthread_mutex_lock(&w->lock);
	while (!w->gave_up && w->bad == w->crew->count && w->next < w->crew->count) {
		int32_t i = w->next++;
		struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
		pthread_mutex_unlock(&w->lock);
		enum stk_status s = w->crew->run(w->crew->user, i, &err);
		pthread_mutex_lock(&w->lock);
		w->done++;
		if (s && i < w->bad) {
			w->bad = i;
			w->error = err;
			w->error.code = s;
		}
	}
	w->running--;
	pthread_cond_signal(&w->change);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Calls crew->progress again and again until all threads have ended. If it returns false, sets the flag *crew->stop, and no further item is started. */
static void report_progress(struct work *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->running) {
		struct timespec deadline;
		clock_gettime(CLOCK_REALTIME, &deadline);
		deadline.tv_nsec += SLICE_NS;
		deadline.tv_sec += deadline.tv_nsec / 1000000000;
		deadline.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&w->change, &w->lock, &deadline);
		int32_t done = w->done;
		pthread_mutex_unlock(&w->lock);
		bool on = w->crew->progress(w->crew->user, done);
		if (!on)
			atomic_store(w->crew->stop, true);
		pthread_mutex_lock(&w->lock);
		w->gave_up |= !on;
	}
	pthread_mutex_unlock(&w->lock);
}

enum stk_status stk__crew_run(const struct stk_crew *crew, struct stk_error *err)
{
	pthread_t threads[STK_MOST_CREW];
	struct work w = {.crew = crew, .bad = crew->count};
	int wanted = crew->threads < STK_MOST_CREW ? crew->threads : STK_MOST_CREW, n = 0;
	wanted = crew->count < wanted ? crew->count : wanted;
	wanted -= !crew->progress; /* the caller runs items itself, unless it must report progress */
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.change, NULL);
	w.running = wanted > 0 ? wanted : 0;
	while (n < wanted && stk__thread_start(&threads[n], "stk-crew", run, &w, NULL) == STK_OK)
		n++;
	pthread_mutex_lock(&w.lock);
	w.running = w.running - (wanted > n ? wanted - n : 0) + (crew->progress && n ? 0 : 1);
	pthread_mutex_unlock(&w.lock);
	if (crew->progress && n)
		report_progress(&w);
	else
		run(&w);
	while (n)
		stk__thread_join(threads[--n]);
	pthread_cond_destroy(&w.change);
	pthread_mutex_destroy(&w.lock);
	if (w.gave_up)
		return stk__fail(err, STK_CANCELLED, "the work was cancelled");
	if (w.bad < crew->count && err)
		*err = w.error;
	return w.bad < crew->count ? w.error.code : STK_OK;
}
