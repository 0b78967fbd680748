/* SPDX-License-Identifier: Apache-2.0 */
#include "thread/thread.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum stk_status stk__thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg, struct stk_error *err)
{
	/* The new thread inherits the signal mask, so that it never receives a signal. */
	sigset_t all_signals, old_mask;
	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, &old_mask);
	int failed = stk__fault(STK_FAULT_THREAD) ? EAGAIN : pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old_mask, NULL);
	if (failed) {
		char text[128];
		return stk__fail(err, STK_SYSTEM, "cannot start the thread %s: %s (see ulimit -u and the control group's pids.max)", name,
			strerror_r(failed, text, sizeof text));
	}
	char truncated[16];
	snprintf(truncated, sizeof truncated, "%s", name);
	pthread_setname_np(*thread, truncated);
	return STK_OK;
}

void stk__thread_join(pthread_t thread)
{
	int failed = pthread_join(thread, NULL);
	assert(!failed);
	(void)failed;
}

void stk__cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}
