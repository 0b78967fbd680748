/* SPDX-License-Identifier: Apache-2.0
 * Splits the work of one call over threads, and joins them. The threads live only as long as the call, at a cost of about 20 us each, so small work stays on
 * the caller's thread. */
#include "ragged/ragged.h"

#include "base/memory.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define MAX_THREADS 64
#define BYTES_PER_THREAD (512 << 10)

struct fork_job {
	void (*fn)(void *ctx, int64_t i, int32_t worker);
	void *ctx;
	int64_t count;
	atomic_int_fast64_t next;
	atomic_int_fast32_t workers;
};

static void *fork_run(void *arg)
{
	struct fork_job *job = arg;
	int32_t worker = (int32_t)atomic_fetch_add_explicit(&job->workers, 1, memory_order_relaxed);
	for (;;) {
		int64_t i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
		if (i >= job->count)
			return NULL;
		job->fn(job->ctx, i, worker);
	}
}

void stk__fork(int32_t threads, int64_t count, void (*fn)(void *ctx, int64_t i, int32_t worker), void *ctx)
{
	struct fork_job job = {.fn = fn, .ctx = ctx, .count = count};
	pthread_t ids[MAX_THREADS];
	int32_t started = 0, wanted = threads > MAX_THREADS ? MAX_THREADS : threads;
	sigset_t all, old;
	sigfillset(&all);
	/* New threads inherit this thread's signal mask. With all signals blocked, the program's signal handlers never run on them. */
	if (wanted > 1 && count > 1 && pthread_sigmask(SIG_SETMASK, &all, &old) == 0) {
		while (started < wanted - 1 && started < count - 1) {
			if (stk__fault(STK_FAULT_THREAD) || pthread_create(&ids[started], NULL, fork_run, &job))
				break;
			started++;
		}
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	fork_run(&job);
	while (started > 0)
		pthread_join(ids[--started], NULL);
}

int32_t stk__fork_threads(const struct stk_ragged *r, int64_t items, int64_t bytes)
{
	int64_t n = 1 + bytes / BYTES_PER_THREAD, most = r->threads < MAX_THREADS ? r->threads : MAX_THREADS;
	if (n > items)
		n = items;
	return (int32_t)(n < most ? n : most);
}
